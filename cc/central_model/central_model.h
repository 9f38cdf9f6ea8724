// The central model z: the consistent average that is evaluated, fetched and saved.
//
// Of every trainable variable the model keeps two values, in the variable's
// accumulation type (float for 16- and 32-bit variables, double for 64-bit ones; a
// complex variable is a real one of twice the size):
//
//   current   z
//   other     z before the last synchronised iteration; while an iteration is under way
//             z after it takes its place, slice by slice
//
// Completing an iteration swaps the two; nothing is copied, and until then `current` is
// untouched. With an `ema_decay` the model also keeps the exponential moving average of
// z over the iterations t = 0, 1, …,
//
//   z̄ ← d·z̄ + (1 − d)·z ,  d = min(ema_decay, (1 + t) / (10 + t))
//
// as TensorFlow's ExponentialMovingAverage does; each slice takes z in when somebody
// has it at hand, before the next swap.
//
// Assign(), Follow(), ForgetMomentum() and CopyTo() are called between runs only;
// within one, the synchroniser decides who may touch what. Owns its memory.
#ifndef TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_
#define TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cc/support/aligned_buffer.h"
#include "cc/support/element.h"

namespace tensorbow {

class CentralModel {
 public:
  // A slice, the unit of synchronisation, holds at most this many elements: small
  // enough that the parts of all learners stay in a core's second-level cache.
  static constexpr int64_t kSliceElements = 16 * 1024;

  // Elements [begin, end) of a variable.
  struct Slice {
    int64_t begin;
    int64_t end;
    int64_t size() const { return end - begin; }
  };
  // Those of a variable of `size` elements.
  static int NumSlices(int64_t size) {
    return static_cast<int>((size + kSliceElements - 1) / kSliceElements);
  }
  static Slice SliceOf(int64_t size, int s) {
    return {s * kSliceElements, std::min(size, (s + 1) * kSliceElements)};
  }

  class Variable {
   public:
    Variable(ElementType type, int64_t size, double ema_decay);

    ElementType type() const { return type_; }
    int64_t size() const { return size_; }  // elements
    int num_slices() const { return NumSlices(size_); }
    Slice slice(int s) const { return SliceOf(size_, s); }

    // All elements; A is the accumulation type.
    template <typename A>
    A* current() const {
      return z_[current_].template as<A>();
    }
    template <typename A>
    A* other() const {
      return z_[1 - current_].template as<A>();
    }

    // The average, with z taken in, null if none is kept; and the iterations since the
    // last Assign(), for going on later. Between runs only.
    template <typename A>
    A* average() {
      for (int s = 0; ema_decay_ > 0 && s < num_slices(); ++s) TakeIn(s);
      return average_.template as<A>();
    }
    int64_t iterations() const { return iterations_; }
    // All values have been overwritten with those after `iterations` iterations, the
    // average with the one that `taken_in` of them are in.
    void GoOnFrom(int64_t iterations, int64_t taken_in) {
      iterations_ = iterations;
      std::fill(taken_in_.begin(), taken_in_.end(), taken_in);
      ++version_;
    }
    void GoOnFrom(int64_t iterations) { GoOnFrom(iterations, iterations); }
    // Changes when values are overwritten, not when iterations are completed.
    int64_t version() const { return version_; }
    // What average() has, without z taken in: to be overwritten.
    void* average_data() const { return average_.data(); }

    // An iteration is complete. REQUIRES: all slices have taken z in.
    void Swap() {
      current_ = 1 - current_;
      ++iterations_;
    }

    // Takes the current z of slice `s` into its average, unless that has been done.
    void TakeIn(int s) {
      if (ema_decay_ > 0 && taken_in_[s] < iterations_) UpdateAverage(s);
    }

    // Where z is what the replicas are: takes `values`, what slice `s` is after the
    // iteration under way, in the storage type, into the average. All slices have to do
    // that before Follow().
    void TakeInNext(int s, const void* values);
    // An iteration is complete, and z, which nobody has written, out of date.
    void Follow() { ++iterations_; }

   private:
    friend class CentralModel;
    void UpdateAverage(int s);

    ElementType type_;
    int64_t size_;
    double ema_decay_;
    std::array<AlignedBuffer, 2> z_;
    int current_ = 0;
    int64_t iterations_ = 0;  // since the last Assign()
    int64_t version_ = 0;
    AlignedBuffer average_;
    std::vector<int64_t> taken_in_;  // by slice: iterations in the average
  };

  // `ema_decay`: of the moving average, 0 <= ema_decay < 1; 0 for none.
  explicit CentralModel(double ema_decay = 0) : ema_decay_(ema_decay) {}
  double ema_decay() const { return ema_decay_; }

  // `d` above, for taking in z as it is after `iterations` iterations.
  static double Decay(double ema_decay, int64_t iterations) {
    const double t = static_cast<double>(iterations - 1);
    return std::min(ema_decay, (1 + t) / (10 + t));
  }

  // Adds a variable with z = 0 and returns its index.
  int Add(ElementType type, int64_t size);

  // Both values, and the average, ← `values` (`size` elements of the variable's storage
  // type).
  void Assign(int variable, const void* values);

  // Both values ← `values`, as in Assign(); the average stays.
  void Follow(int variable, const void* values);

  // other ← current, for a restart.
  void ForgetMomentum(int variable);

  // Rounds z (or, if there is one and it is asked for, its average) to the variable's
  // storage type into `values`.
  enum class Which { kCurrent, kAverage };
  void CopyTo(int variable, Which which, void* values);

  // Whether the moving average of z is kept.
  bool averages() const { return ema_decay_ > 0; }
  int num_variables() const { return static_cast<int>(variables_.size()); }
  Variable& variable(int index) { return variables_[index]; }
  const Variable& variable(int index) const { return variables_[index]; }

 private:
  const double ema_decay_;
  std::vector<Variable> variables_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_
