// The order of the learners' streams, on devices where a learner executes a task by
// enqueuing it. The algorithm for such devices implements it. Different learners may
// call everything concurrently.
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

  // An iteration of a run.
  struct Iteration {
    const TrainedSet* set;
    int64_t number;  // over all runs
    bool due;        // it corrects
    // The participants of the last iteration of each variable of the model.
    const std::vector<std::vector<int>>* participants;
  };

  // Starts a run. Learners may have moved their replicas since the last.
  virtual void BeginRun(const TrainedSet& set) = 0;
  // Lets the learner's stream change its replica and read the Target() from now on.
  // `replays`: the task is a recorded one, with its own waits. Returns false after an
  // error.
  virtual bool Enter(int learner, const Iteration& iteration, bool replays) = 0;
  // Marks the learner's task as enqueued, or skipped.
  virtual void Finished(int learner) = 0;
  // Returns the address of a variable's z on the learner's device, in the accumulation
  // type; the same in all iterations.
  virtual const void* Target(int learner, int variable) const = 0;
  // Ends the run and undoes the preparation of an iteration that was not completed.
  virtual void EndRun(const TrainedSet& set) = 0;
  // Returns the permanent failure, empty if there is none.
  virtual std::string error() const = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_DEVICE_QUEUE_H_
