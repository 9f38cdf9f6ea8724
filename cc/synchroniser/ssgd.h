// Synchronous parallel SGD: the gradients of all learners are averaged, in learner
// order, and every learner applies the same update to the same weights. All replicas
// are equal; learner 0's stands for the model. One step with L learners of batch b
// equals, to rounding, one step of a single learner with a batch of L·b rows. If the
// central model keeps a moving average, its z follows the replicas.
//
// Learners meet in Reduce() once for every gradient. A learner that finishes its task
// without having come (or sits the iteration out) contributes nothing.
#ifndef TENSORBOW_CC_SYNCHRONISER_SSGD_H_
#define TENSORBOW_CC_SYNCHRONISER_SSGD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/support/element.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

class Ssgd : public Synchroniser {
 public:
  using Synchroniser::Synchroniser;

  bool averages() const override { return false; }
  bool keeps_z() const override { return central()->averages(); }
  bool synchronises() const override { return true; }

  // mean ← the average of all learners' `own`, n elements stored as `type`, of the
  // set's gradient number `gradient`. Waits for the others. False if the iteration was
  // aborted. REQUIRES: all learners call it for the gradients in the same order.
  bool Reduce(int learner, int gradient, ElementType type, int64_t n, const void* own,
              void* mean);

 protected:
  void Prepare(const TrainedSet& set) override;
  bool Due(const TrainedSet&, int64_t) const override { return false; }
  void PrepareNext(const TrainedSet&, int, int) override {}
  void Exclude(const TrainedSet&, int, const std::vector<int>&) override {}
  void Remember(int, const TrainedSet&, int) override {}
  void Correct(int, const TrainedSet&, int, bool) override {}
  void Leaving(int learner) override;
  void Completing(int present) override;

 private:
  struct alignas(64) Gradient {
    // By learner, null if it has not come. Written before the arrival that readers have
    // acquired.
    std::vector<const void*> values;
    std::atomic<int> arrived{0};  // learners that have come, or left without
    std::atomic<int> read{0};     // learners that need the values no more
  };
  void Reset();

  std::unique_ptr<Gradient[]> gradients_;
  int num_gradients_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SSGD_H_
