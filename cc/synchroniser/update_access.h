// The access of update ops to their learner's iteration: a handle to a Synchroniser,
// made by a kernel each time it executes. Different learners may call it concurrently.
#ifndef TENSORBOW_CC_SYNCHRONISER_UPDATE_ACCESS_H_
#define TENSORBOW_CC_SYNCHRONISER_UPDATE_ACCESS_H_

#include <string>

#include "cc/activity/learner_activity.h"
#include "cc/central_model/central_model.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class Synchroniser;
struct SynchroniserCore;

class UpdateAccess {
 public:
  // `synchroniser`: null outside of learning runs; not owned.
  UpdateAccess(Synchroniser* synchroniser, int learner);

  // The trained variables of the current run; null outside of runs.
  TrainedSet* set() const;
  // The factor of the learner's learning rate; 1 without a synchroniser.
  double rate() const;

  // REQUIRES for all that follows: set() != nullptr.

  bool averages_gradients() const;
  // The weight of the learner's task in averages of gradients.
  double share() const;
  LearnerActivity* activity() const;  // or null
  // The permanent failure of the device queue; empty if there is none.
  std::string error() const;

  // Lets the learner change its part of the slice from now on. Returns false if the
  // iteration was aborted; then the op must stop.
  bool Enter(int member, int slice) const;
  // Enters all slices: nobody else reads this learner's weights until the next
  // iteration.
  bool EnterAll(int member) const;
  // Enters all members that correct themselves and marks them as updated, for a
  // recorded task. Returns false if the iteration was aborted: do not replay.
  bool EnterRecorded() const;
  // Marks a member whose slices were all entered and corrected in this task.
  void Updated(int member) const;
  bool updated(int member) const;

  CentralModel::Variable& variable(int member) const;
  // Returns the value z to correct towards, after Enter(); null if this iteration does
  // not correct. `A`: the accumulation type.
  template <typename A>
  const A* Target(int member) const {
    return static_cast<const A*>(Target(member));
  }
  // The same target on the learner's device.
  const void* DeviceTarget(int member) const;
  // The strength α of a correction α (w − z).
  double Alpha(int member) const;

  // The i-th slice of a variable in this learner's order. Learners that keep pace are
  // close to each other, which caches like, and first in equal shares.
  int SliceAt(int i, int num_slices) const;

 private:
  friend class LearnerPace;

  UpdateAccess(SynchroniserCore* core, int learner) : core_(core), learner_(learner) {}
  const void* Target(int member) const;
  bool EnterQueue(bool replays) const;

  SynchroniserCore* const core_;
  const int learner_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_UPDATE_ACCESS_H_
