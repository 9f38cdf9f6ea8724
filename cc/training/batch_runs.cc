// Runs whose rows are cut into batches of each learner's own size, and merges: what a
// LearningRun and a Trainer do for Adaptive SGD (cc/synchroniser/adaptive.h).
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "cc/support/flush_denormals.h"
#include "cc/training/learning_run.h"
#include "cc/training/merges_of_hosts.h"
#include "cc/training/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

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
    synchroniser_->BeginRun(program_->set.get(), scheduler_);
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
    batches_->NoteTraining((NowNanos() - began) / 1000);
    if (plan_.tasks.empty()) {
      for (const TaskOutcome& outcome : outcomes_) {
        if (task_iteration_[&outcome - outcomes_.data()] < 0) continue;
        batches_->NoteUpdate(outcome.learner, std::max<int64_t>(1, outcome.rows));
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
  while (!synchroniser_->Aborted(learner)) {
    const std::optional<RowCutter::Batch> batch = cutter_.Next(learner);
    if (!batch.has_value()) break;
    activity_->learner(learner)->BeginTask(NowNanos());
    if (!synchroniser_->BeforeTask(learner)) break;
    synchroniser_->SetRate(learner, batches_->rate(learner));
    absl::Status status =
        RunTask(learner, batch->number, FeedPlan::Rows{batch->begin, batch->end});
    if (status.ok()) status = after_task_(learner);
    if (!status.ok()) {
      Fail(learner, status);
      break;
    }
    any = true;
    task_iteration_[batch->number] = completed_;
    batches_->NoteUpdate(learner, batch->end - batch->begin);
    activity_->learner(learner)->EndTask(NowNanos(), completed_);
  }
  if (!synchroniser_->Aborted(learner)) {
    any ? synchroniser_->AfterTask(learner) : synchroniser_->SitOut(learner);
  }
  FinishLearner(learner);
}

// On several hosts also of what has been written since: it is merged before it is
// overwritten, as on the hosts that have not come there yet.
absl::StatusOr<TrainedSet> Trainer::LocateAll() {
  std::vector<int> ids, model_indices, changes;
  for (int id = 0; id < variables_->size(); ++id) {
    if (!variables_->trained(id)) continue;
    const bool written = !variables_->replicas_up_to_date(id);
    if (written && (rounds_ == nullptr || !variables_->in_model(id))) continue;
    if (!written) changes.push_back(id);
    ids.push_back(id);
    model_indices.push_back(variables_->model_index(id));
  }
  TrainedSet all(num_learners(), std::move(model_indices));
  TF_RETURN_IF_ERROR(LocateReplicas(ids, &all));
  variables_->MarkLearned(changes, {});
  return all;
}

MegaBatches* Trainer::BeginBatches(const FeedPlan& plan) {
  Adaptive* const adaptive = synchronisation_->adaptive;
  if (adaptive == nullptr) return nullptr;
  const int64_t rows = plan.tasks.empty() ? 0 : plan.tasks.back().end;
  MegaBatches* const batches = &adaptive->batches();
  // Of a pipeline's elements the rows are not known before.
  batches->Begin(rows > 0 ? rows : num_learners());
  if (plan.tasks.size() == 1) {
    warn_(
        "AdaptiveSGD: a learning run was fed no more rows than one learner's batch "
        "has: "
        "one learner trains and the others have nothing to do. Feed several batches "
        "for "
        "each learner in one run, best a whole mega-batch, or give a smaller b_max.");
  }
  return batches;
}

absl::Status Trainer::MergeModels(const LearningRun* run) {
  const ScopedMark marked(&activity_, "merge");
  if (merges_ != nullptr) return merges_->Merge(*run);
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll());
  Adaptive* const adaptive = synchronisation_->adaptive;
  adaptive->Merge(all, adaptive->AreSmall(all));
  return absl::OkStatus();
}

absl::Status Trainer::MergeWhatIsLeft() {
  if (options_.algorithm != Options::Algorithm::kAdaptive) {
    return absl::FailedPreconditionError(
        "merge() is for sessions with AdaptiveSGD(); other synchronisers keep learners "
        "together in every run");
  }
  turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  NoteWrites();
  TF_RETURN_IF_ERROR(RestartIfAsked());
  if (merges_ != nullptr) return merges_->Rest(/*wants_merge=*/true);
  const bool merges = synchronisation_ != nullptr &&
                      synchronisation_->adaptive != nullptr &&
                      synchronisation_->adaptive->batches().num_updates() > 0;
  return merges ? MergeModels(/*run=*/nullptr) : absl::OkStatus();
}

absl::Status Trainer::AbandonMegaBatch() {
  TF_ASSIGN_OR_RETURN(const TrainedSet all, LocateAll());
  synchronisation_->adaptive->Abandon(all);
  return absl::OkStatus();
}

std::vector<MegaBatches::Record> Trainer::MegaBatchRecords() {
  absl::MutexLock lock(&mu_);
  if (synchronisation_ == nullptr || synchronisation_->adaptive == nullptr) return {};
  const auto& records = synchronisation_->adaptive->batches().records();
  return {records.begin(), records.end()};
}

}  // namespace tensorbow
