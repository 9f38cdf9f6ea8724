// The central model z: the consistent average that is evaluated, fetched and saved.
//
// Every trainable variable is cut into slices, the unit of synchronisation. Of each
// slice the model keeps three values, in the variable's accumulation type (float for
// 16- and 32-bit variables, double for 64-bit ones; a complex variable is a real one of
// twice the size):
//
//   previous   z before the last synchronised iteration
//   current    z now
//   next       z after the iteration under way, if every learner takes part in it: it
//              depends only on the replicas as they were before that iteration, so it
//              is computed as soon as the iteration before is complete
//
// Completing an iteration rotates the three, taking it back rotates them back; nothing
// is copied. Assign(), Forget…() and CopyTo() are called between runs only; within one,
// the synchroniser decides who may touch a slice. Owns its memory.
#ifndef TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_
#define TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/support/aligned_buffer.h"
#include "cc/support/element.h"

namespace tensorbow {

class CentralModel {
 public:
  // A slice holds at most this many elements: small enough that the parts of all
  // learners stay in a core's second-level cache.
  static constexpr int64_t kSliceElements = 16 * 1024;

  // Elements [begin, end) of a variable.
  struct Slice {
    int64_t begin;
    int64_t end;
    int rotation = 0;  // which of the three buffers is current

    int64_t size() const { return end - begin; }
  };

  class Variable {
   public:
    Variable(ElementType type, int64_t size);

    ElementType type() const { return type_; }
    int64_t size() const { return size_; }  // elements
    int num_slices() const { return static_cast<int>(slices_.size()); }
    const Slice& slice(int s) const { return slices_[s]; }

    // The values of slice `s`; A is the accumulation type.
    template <typename A>
    A* previous(int s) const {
      return part<A>(s, 2);
    }
    template <typename A>
    A* current(int s) const {
      return part<A>(s, 0);
    }
    template <typename A>
    A* next(int s) const {
      return part<A>(s, 1);
    }

    // The iteration is complete: previous ← current ← next; what next then holds is
    // undefined.
    void Rotate(int s) { slices_[s].rotation = (slices_[s].rotation + 1) % 3; }
    // Undoes Rotate() for current; what the other two then hold is undefined.
    void RotateBack(int s) { slices_[s].rotation = (slices_[s].rotation + 2) % 3; }

   private:
    friend class CentralModel;
    template <typename A>
    A* part(int s, int ahead) const {
      const Slice& slice = slices_[s];
      return z_[(slice.rotation + ahead) % 3].template as<A>() + slice.begin;
    }

    ElementType type_;
    int64_t size_;
    std::vector<Slice> slices_;
    std::array<AlignedBuffer, 3> z_;
  };

  // Adds a variable with z = 0 and returns its index.
  int Add(ElementType type, int64_t size);

  // All three values ← `values` (`size` elements of the variable's storage type): what
  // they are when every replica equals z.
  void Assign(int variable, const void* values);

  // previous, next ← current, for a restart.
  void ForgetMomentum(int variable);

  // Rounds the current values to the variable's storage type into `values`.
  void CopyTo(int variable, void* values) const;

  int num_variables() const { return static_cast<int>(variables_.size()); }
  Variable& variable(int index) { return variables_[index]; }
  const Variable& variable(int index) const { return variables_[index]; }

 private:
  std::vector<Variable> variables_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_
