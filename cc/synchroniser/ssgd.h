// Synchronous parallel SGD: the gradients of all learners are averaged, in learner
// order, and every learner applies the same update to the same weights. All replicas
// are equal; learner 0's stands for the model. One step with L learners of batch b
// equals, to rounding, one step of a single learner with a batch of L·b rows. If the
// central model keeps a moving average, that takes in what the replicas are.
//
// Learners meet at points of their tasks: at one for each fused update (the kernel then
// divides the slices among those who have come, and each updates its own for all), and
// at one for each gradient of an update that is not fused. A learner that finishes its
// task without having come (or sits the iteration out) contributes nothing.
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
  bool follows_replicas() const override { return true; }
  bool synchronises() const override { return true; }

  // The point where learners meet to make an update together.
  int UpdatePoint(int update) const { return set()->num_gradients() + update; }

  // Waits until every learner of the iteration has come to the point or finished its
  // task without. Returns what they have brought, in learner order, for use until
  // Part(); nothing if the iteration was aborted, which it cannot be from then on.
  // REQUIRES: all learners come to the points in the same order.
  std::vector<const void*> Meet(int learner, int point, const void* brought);
  // Waits until all who have met need what they were given no more.
  void Part(int point);

  // mean ← the average of all learners' `own`, n elements stored as `type`, of the
  // set's gradient number `gradient`. Waits for the others. False if the iteration was
  // aborted.
  bool Reduce(int learner, int gradient, ElementType type, int64_t n, const void* own,
              void* mean);

  // The slice of the member's replicas has been updated and is `weights` now: takes it
  // into the average. To be called once for every slice of a member that corrects
  // itself, between Meet() and Part(), if there is an average.
  void TakeIn(int member, int slice, const void* weights) {
    central()->variable(set()->variable(member)).TakeInNext(slice, weights);
  }

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
  struct alignas(64) Point {
    // By learner, null if it has not come. Written before the arrival that readers have
    // acquired.
    std::vector<const void*> brought;
    std::atomic<int> arrived{0};  // learners that have come, or left without
    std::atomic<int> staying{0};  // learners that have come and not parted
  };
  void Reset();

  std::unique_ptr<Point[]> points_;
  int num_points_ = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_SSGD_H_
