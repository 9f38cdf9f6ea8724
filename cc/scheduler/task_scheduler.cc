#include "cc/scheduler/task_scheduler.h"

#include <algorithm>

namespace tensorbow {

TaskScheduler::TaskScheduler(int num_learners)
    : num_learners_(num_learners), taken_(num_learners, 0) {}

void TaskScheduler::Begin(int64_t num_tasks, SchedulingPolicy policy) {
  MutexLock lock(&mu_);
  policy_ = policy;
  num_tasks_ = num_tasks;
  std::fill(taken_.begin(), taken_.end(), 0);
  next_task_ = 1;  // task 0 is kept for learner 0
  // In a run shorter than one iteration, learner 0's place is not counted.
  short_iteration_places_ = num_tasks % num_learners_;
  if (num_tasks > 0 && num_tasks < num_learners_) --short_iteration_places_;
}

std::optional<TaskScheduler::Assignment> TaskScheduler::Next(int learner) {
  MutexLock lock(&mu_);
  const int64_t iteration = taken_[learner];
  if (policy_ == SchedulingPolicy::kRoundRobin) {
    const int64_t task = iteration * num_learners_ + learner;
    if (task >= num_tasks_) return std::nullopt;
    ++taken_[learner];
    return Assignment{task, iteration};
  }
  if (learner == 0 && iteration == 0) {
    if (num_tasks_ == 0) return std::nullopt;
    ++taken_[0];
    return Assignment{0, 0};
  }
  const int64_t full_iterations = num_tasks_ / num_learners_;
  if (iteration > full_iterations) return std::nullopt;
  if (iteration == full_iterations) {
    if (short_iteration_places_ == 0) return std::nullopt;
    --short_iteration_places_;
  }
  ++taken_[learner];
  return Assignment{next_task_++, iteration};
}

int64_t TaskScheduler::num_iterations() const {
  return (num_tasks_ + num_learners_ - 1) / num_learners_;
}

int TaskScheduler::participants(int64_t iteration) const {
  const int64_t before = iteration * num_learners_;
  return static_cast<int>(std::clamp<int64_t>(num_tasks_ - before, 0, num_learners_));
}

}  // namespace tensorbow
