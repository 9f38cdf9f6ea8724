#include "cc/synchroniser/learner_pace.h"

#include <algorithm>

#include "cc/synchroniser/synchroniser.h"
#include "cc/synchroniser/synchroniser_core.h"
#include "cc/synchroniser/update_access.h"

namespace tensorbow {

LearnerPace::LearnerPace(Synchroniser* synchroniser, int learner)
    : core_(synchroniser->core_.get()), learner_(learner) {}

void LearnerPace::SetShare(double share) { core_->learners[learner_].share = share; }

void LearnerPace::SetRate(double rate) { core_->learners[learner_].rate = rate; }

void LearnerPace::RecordRows(int64_t rows) { core_->learners[learner_].rows = rows; }

bool LearnerPace::Aborted() const { return core_->Aborted(learner_); }

void LearnerPace::Abort() { core_->Abort(learner_); }

bool LearnerPace::BeforeTask() {
  SynchroniserCore::Learner& me = core_->learners[learner_];
  me.rows = HostRounds::kUnknown;
  const UpdateAccess updates(core_, learner_);
  std::fill(me.updated.begin(), me.updated.end(), false);
  std::fill(me.remembered.begin(), me.remembered.end(), false);
  for (int member = 0; core_->traits.averages_models() && member < core_->set->size();
       ++member) {
    if (core_->set->corrects_itself(member)) continue;
    if (!updates.EnterAll(member)) return false;
    if (!core_->IsDue(learner_)) continue;
    const ScopedActivity correcting(me.activity, Activity::kCorrect,
                                    core_->set->variable(member));
    core_->algorithm->Remember(learner_, *core_->set, member);
    me.remembered[member] = true;
  }
  return !Aborted();
}

bool LearnerPace::AfterTask() {
  SynchroniserCore::Learner& me = core_->learners[learner_];
  const UpdateAccess updates(core_, learner_);
  for (int member = 0; core_->traits.averages_models() && member < core_->set->size();
       ++member) {
    if (me.updated[member]) continue;
    // Every iteration prepares every slice, due or not: the central model's average
    // needs each z.
    if (!updates.EnterAll(member)) return false;
    if (!core_->IsDue(learner_)) continue;
    const ScopedActivity correcting(me.activity, Activity::kCorrect,
                                    core_->set->variable(member));
    core_->algorithm->Correct(learner_, *core_->set, member, me.remembered[member]);
  }
  return Finish(/*took_part=*/true);
}

bool LearnerPace::Skip() { return Finish(/*took_part=*/false); }

bool LearnerPace::Finish(bool took_part) {
  // Before that, another learner may be completing the iteration before.
  if (!core_->AwaitTurn(learner_)) return false;
  if (core_->queue != nullptr) core_->queue->Finished(learner_);
  const int num_points = core_->set->num_gradients() + core_->set->num_updates();
  for (int i = 0; i < num_points; ++i) {
    if (core_->points[i].brought[learner_] == nullptr) {
      core_->points[i].arrived.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  if (num_points > 0) core_->gate.Notify();
  SynchroniserCore::Learner& me = core_->learners[learner_];
  const int64_t iteration = me.iteration++;
  if (took_part) me.took_part = iteration;
  me.finished_rows = me.rows;
  const int before = core_->arrived.fetch_add(1, std::memory_order_acq_rel);
  if (before + 1 == core_->scheduler->participants(iteration)) {
    core_->arrived.store(0, std::memory_order_relaxed);
    core_->Complete(iteration);
    core_->completed.store(iteration + 1, std::memory_order_release);
    core_->gate.Notify();
  }
  return !Aborted();
}

}  // namespace tensorbow
