// The exchange of values between the learners of an iteration: a handle to a
// Synchroniser, made by a kernel each time it executes. All learners reach the points
// of a task in the same order. Different learners may call it concurrently.
#ifndef TENSORBOW_CC_SYNCHRONISER_LEARNER_EXCHANGE_H_
#define TENSORBOW_CC_SYNCHRONISER_LEARNER_EXCHANGE_H_

#include <vector>

#include "cc/activity/learner_activity.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class Synchroniser;
struct SynchroniserCore;

class LearnerExchange {
 public:
  // `synchroniser`: null outside of learning runs; not owned.
  LearnerExchange(Synchroniser* synchroniser, int learner);

  // The trained variables of the current run; null outside of runs.
  TrainedSet* set() const;

  // REQUIRES for all that follows: set() != nullptr.

  // Waits until every learner of the iteration has reached the point or finished its
  // task. Returns their contributions in learner order, valid until Release(); nothing
  // if the iteration was aborted. Afterwards it can no longer be aborted.
  std::vector<const void*> AllGather(int point, const void* own) const;
  // Waits until no learner needs this one's contribution any more.
  void Release(int point) const;
  // Waits for the other hosts, which average gradients, and aborts the iteration if it
  // ends there. Called by one learner for all, after all have sent their gradients
  // (TrainedSet::host_gradients) and before any update. `point`: of the AllGather().
  void Vote(int point) const;
  // Returns whether the learner's iteration is aborted.
  bool Aborted() const;

  // The number of learners with a task in this iteration.
  int num_participants() const;
  bool averages_gradients() const;
  // The weight of the learner's task in averages of gradients.
  double share() const;
  LearnerActivity* activity() const;  // or null

 private:
  SynchroniserCore* const core_;
  const int learner_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_LEARNER_EXCHANGE_H_
