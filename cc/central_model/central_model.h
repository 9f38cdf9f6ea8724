// The central model z: the consistent average that is evaluated, fetched and saved.
//
// The model keeps up to three arrays of every trained variable, in the variable's
// accumulation type. That is float for 16- and 32-bit variables, and double for 64-bit
// ones. A complex variable is a real one of twice the size. The arrays are
//
//   z          the model's value, unless the replicas are all equal and stand for it
//   previous   z before the last synchronised iteration. During an iteration, the new z
//              replaces it slice by slice. Only for algorithms whose z has momentum.
//   average    the value that is read. If the algorithm merges models, it is the plain
//              mean of the replicas. With an `ema_decay`, it is the exponential moving
//              average of z over the iterations t = 0, 1, …,
//
//                z̄ ← d·z̄ + (1 − d)·z ,  d = min(ema_decay, (1 + t) / (10 + t))
//
//              as TensorFlow's ExponentialMovingAverage does
//
// A slice is up to date when it holds the value after all completed iterations. An
// algorithm that computes z from the replicas updates a slice when somebody reads it;
// the average moves at the same moment, once for every iteration.
//
// The synchroniser decides who may touch what within a run. Assign(), ForgetMomentum()
// and CopyTo() are called between runs only. Owns its memory.
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
  // Returns the number of slices of a variable of `size` elements.
  static int NumSlices(int64_t size) {
    return static_cast<int>((size + kSliceElements - 1) / kSliceElements);
  }
  static Slice SliceOf(int64_t size, int s) {
    return {s * kSliceElements, std::min(size, (s + 1) * kSliceElements)};
  }

  class Variable {
   public:
    Variable(ElementType type, int64_t size, int num_values, bool keeps_average,
             double ema_decay);

    ElementType type() const { return type_; }
    int64_t size() const { return size_; }  // in elements
    int num_slices() const { return NumSlices(size_); }
    Slice slice(int s) const { return SliceOf(size_, s); }

    // Return the first element; null if the model does not keep the array. A is the
    // accumulation type.
    template <typename A>
    A* z() const {
      return z_[z_index_].template as<A>();
    }
    template <typename A>
    A* previous() const {
      return z_[1 - z_index_].template as<A>();
    }
    template <typename A>
    A* average() const {
      return average_.template as<A>();
    }

    // Returns the iterations completed since the last Assign().
    int64_t iterations() const { return iterations_; }
    // Returns whether slice `s` holds the value after all completed iterations.
    bool up_to_date(int s) const { return up_to_date_with_[s] == iterations_; }
    // Records that z of slice `s` is up to date, and moves the average once.
    void MarkUpToDate(int s);
    // Moves the average of slice `s` to the current iteration: its replicas are all
    // equal and hold `values`, in the storage type. If the model keeps an average,
    // every slice needs this before NextIteration().
    void AverageNext(int s, const void* values);
    bool has_averaged_next(int s) const {
      return up_to_date_with_[s] == iterations_ + 1;
    }

    // Completes an iteration.
    void NextIteration() { ++iterations_; }
    // Completes an iteration whose new z stands in `previous`. REQUIRES: all slices
    // have been marked up to date.
    void Swap() {
      z_index_ = 1 - z_index_;
      ++iterations_;
    }

    // Discards the last iteration: z is the value before it. REQUIRES: no slice has
    // been updated since.
    void UndoIteration() { --iterations_; }
    // Returns whether z and its predecessor may differ.
    bool has_momentum() const { return forgotten_at_ != iterations_; }

    // Sets the counters after all values have been overwritten: `iterations` are
    // completed, and `averaged` of them have moved the average.
    void Resume(int64_t iterations, int64_t averaged);
    // Changes when values are overwritten, not when iterations are completed.
    int64_t version() const { return version_; }

   private:
    friend class CentralModel;

    ElementType type_;
    int64_t size_;
    double ema_decay_;
    std::array<AlignedBuffer, 2> z_;
    int z_index_ = 0;
    AlignedBuffer average_;
    int64_t iterations_ = 0;
    int64_t version_ = 0;
    int64_t forgotten_at_ = 0;  // iterations_ when the momentum was last forgotten
    std::vector<int64_t>
        up_to_date_with_;  // by slice: the iterations that its value includes
  };

  // The arrays of every variable: the average alone, z, z and its predecessor, or both
  // with an average that the algorithm computes.
  enum class Keeps { kAverageOnly, kZ, kZAndPrevious, kMerged };

  // `ema_decay`: of the moving average, 0 <= ema_decay < 1; 0 for none; 0 with kMerged.
  explicit CentralModel(Keeps keeps, double ema_decay = 0)
      : keeps_(keeps), ema_decay_(ema_decay) {}

  bool keeps_z() const { return keeps_ != Keeps::kAverageOnly; }
  // Returns whether z lags behind the replicas by the last update of each.
  bool lags() const { return keeps_ == Keeps::kZAndPrevious; }
  bool keeps_previous() const { return lags() || merges(); }
  // Returns whether z is the model that the replicas last started from, and the average
  // their current mean.
  bool merges() const { return keeps_ == Keeps::kMerged; }
  bool keeps_average() const { return ema_decay_ > 0 || merges(); }
  double ema_decay() const { return ema_decay_; }

  // Returns `d` above for the step that adds z after `iterations` iterations.
  static double Decay(double ema_decay, int64_t iterations) {
    const double t = static_cast<double>(iterations - 1);
    return std::min(ema_decay, (1 + t) / (10 + t));
  }

  // Adds a variable with z = 0 and returns its index.
  int Add(ElementType type, int64_t size);

  // Copies `values` (`size` elements of the variable's storage type) into all arrays.
  void Assign(int variable, const void* values);

  // previous ← z, for a restart; does nothing if the model keeps no predecessor.
  void ForgetMomentum(int variable);

  // Rounds z, or its average, to the variable's storage type into `values`.
  // REQUIRES: the model keeps it, and all slices are up to date.
  enum class Which { kZ, kAverage };
  void CopyTo(int variable, Which which, void* values) const;
  // Returns the array with the replicas' current mean, never a moving average.
  Which as_it_is() const { return merges() ? Which::kAverage : Which::kZ; }

  int num_variables() const { return static_cast<int>(variables_.size()); }
  Variable& variable(int index) { return variables_[index]; }
  const Variable& variable(int index) const { return variables_[index]; }

 private:
  const Keeps keeps_;
  const double ema_decay_;
  std::vector<Variable> variables_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CENTRAL_MODEL_CENTRAL_MODEL_H_
