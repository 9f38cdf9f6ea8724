// The part of a LearningRun whose rows are cut into batches of each learner's own size
// (cc/synchroniser/algorithms/adaptive.h).
#include <algorithm>
#include <utility>

#include "cc/support/flush_denormals.h"
#include "cc/trainer/learning_run.h"

namespace tensorbow {

// A part of the run ends with it or with a mega-batch; to the synchroniser it is one
// iteration, in which a learner executes as many batches as it can.
void LearningRun::ExecuteBatches(SchedulingPolicy policy, const Merge& merge) {
  const int64_t all = plan_.tasks.empty() ? 0 : plan_.tasks.back().end;
  int64_t begin = 0;
  do {
    const int64_t end = std::min(all, begin + batches_->rows_left());
    std::vector<int64_t> sizes;
    for (int j = 0; j < active_; ++j) sizes.push_back(batches_->size(j));
    const int next_turn =
        cutter_.Begin(begin, end, std::move(sizes), policy, batches_->turn());
    begin = end;
    scheduler_->Begin(active_, SchedulingPolicy::kRoundRobin);
    synchroniser_->BeginRun(program_->state.set.get(), scheduler_);
    const int64_t began = NowNanos();
    if (plan_.tasks.empty()) {
      batches_->FixSizes();
      OnLearners([this](int learner) { RunTasks(learner); });
    } else {
      OnLearners([this](int learner) { RunBatches(learner); });
    }
    const int64_t completed = synchroniser_->EndRun();
    completed_ += completed;
    if (completed == 0) return;
    batches_->set_turn(next_turn);
    batches_->RecordTraining((NowNanos() - began) / 1000);
    if (plan_.tasks.empty()) {
      for (const TaskOutcome& outcome : outcomes_) {
        if (task_iteration_[&outcome - outcomes_.data()] < 0) continue;
        batches_->RecordUpdate(outcome.learner, std::max<int64_t>(1, outcome.rows));
      }
    }
    if (!batches_->complete()) continue;
    const absl::Status merged = merge();
    if (!merged.ok()) {
      status_[0] = merged;
      return;
    }
  } while (begin < all);
}

void LearningRun::RunBatches(int learner) {
  const ScopedFlushDenormals flush;
  bool any = false;
  while (!synchroniser_->pace(learner).Aborted()) {
    const std::optional<RowCutter::Batch> batch = cutter_.Next(learner);
    if (!batch.has_value()) break;
    activity_->learner(learner)->BeginTask(NowNanos());
    if (!synchroniser_->pace(learner).BeforeTask()) break;
    synchroniser_->pace(learner).SetRate(batches_->rate(learner));
    absl::Status status =
        RunTask(learner, batch->number, FeedPlan::Rows{batch->begin, batch->end});
    if (status.ok()) status = after_task_(learner);
    if (!status.ok()) {
      Fail(learner, status);
      break;
    }
    any = true;
    task_iteration_[batch->number] = completed_;
    batches_->RecordUpdate(learner, batch->end - batch->begin);
    activity_->learner(learner)->EndTask(NowNanos(), completed_);
  }
  if (!synchroniser_->pace(learner).Aborted()) {
    any ? synchroniser_->pace(learner).AfterTask()
        : synchroniser_->pace(learner).Skip();
  }
  FinishLearner(learner);
}

}  // namespace tensorbow
