// Hands the learning tasks of one run to the learners.
//
// A run has tasks 0 … n−1 and proceeds in iterations. In every full iteration each
// learner executes exactly one task. If n is no multiple of the number of learners, the
// last iteration is short, and learners without a task skip it. First come, first
// served: the next task goes to the learner that asks first (learner 0 is the caller's
// own and is always given task 0). Round robin: task k goes to learner k mod L, which
// makes a seeded run reproducible bit for bit.
//
// Next() may be called by every learner concurrently; Begin() only between runs.
#ifndef TENSORBOW_CC_SCHEDULER_TASK_SCHEDULER_H_
#define TENSORBOW_CC_SCHEDULER_TASK_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cc/support/mutex.h"

namespace tensorbow {

enum class SchedulingPolicy { kFirstComeFirstServed, kRoundRobin };

class TaskScheduler {
 public:
  struct Assignment {
    int64_t task;       // index into the run's tasks, in row order
    int64_t iteration;  // counted from 0 within the run
  };

  explicit TaskScheduler(int num_learners);

  // Starts a run. REQUIRES: num_tasks >= 0; no learner is inside Next().
  void Begin(int64_t num_tasks, SchedulingPolicy policy) TENSORBOW_EXCLUDES(mu_);

  // Returns the next task of `learner`, or nullopt when the run has none left for it.
  std::optional<Assignment> Next(int learner) TENSORBOW_EXCLUDES(mu_);

  int64_t num_iterations() const;

  // Returns the number of learners with a task in `iteration` of this run.
  int participants(int64_t iteration) const;

 private:
  const int num_learners_;
  // Written between runs only.
  SchedulingPolicy policy_ = SchedulingPolicy::kFirstComeFirstServed;
  int64_t num_tasks_ = 0;

  Mutex mu_;
  int64_t next_task_ TENSORBOW_GUARDED_BY(mu_) = 0;
  // Free places of a short iteration, without learner 0's.
  int64_t short_iteration_places_ TENSORBOW_GUARDED_BY(mu_) = 0;
  // The number of tasks each learner has received.
  std::vector<int64_t> taken_ TENSORBOW_GUARDED_BY(mu_);
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SCHEDULER_TASK_SCHEDULER_H_
