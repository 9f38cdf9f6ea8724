// Orders what learners enqueue on the streams of their devices, where a learner
// executes a task by enqueuing it. The algorithm that works on such devices implements
// it, too. Everything may be called concurrently by different learners.
#ifndef TENSORBOW_CC_SYNCHRONISER_DEVICE_QUEUE_H_
#define TENSORBOW_CC_SYNCHRONISER_DEVICE_QUEUE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // An iteration of a run: its number over all runs, whether it corrects, and by
  // variable of the model the learners that took part in the last iteration that
  // trained it.
  struct Iteration {
    const TrainedSet* set;
    int64_t number;
    bool due;
    const std::vector<std::vector<int>>* present;
  };

  // A run over `set` begins, and learners may have moved their replicas since the last.
  virtual void BeginRun(const TrainedSet& set) = 0;
  // What the learner's stream executes from now on in this iteration may change its
  // replica and read the Target(). `replays`: that is a recorded task, which has its
  // own waits. False after an error.
  virtual bool Enter(int learner, const Iteration& iteration, bool replays) = 0;
  // The learner has enqueued its task, or sits out.
  virtual void Finished(int learner) = 0;
  // Where a variable's z is on the learner's device, in the accumulation type: the same
  // address in all iterations.
  virtual const void* Target(int learner, int variable) const = 0;
  // The run ends. What has been prepared for an iteration that was not completed is to
  // have no effect.
  virtual void EndRun(const TrainedSet& set) = 0;
  // What went wrong for good, empty if nothing did.
  virtual std::string error() const = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_DEVICE_QUEUE_H_
