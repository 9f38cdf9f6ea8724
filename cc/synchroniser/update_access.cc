#include "cc/synchroniser/update_access.h"

#include <algorithm>
#include <thread>

#include "cc/synchroniser/synchroniser.h"
#include "cc/synchroniser/synchroniser_core.h"

namespace tensorbow {

UpdateAccess::UpdateAccess(Synchroniser* synchroniser, int learner)
    : UpdateAccess(synchroniser == nullptr ? nullptr : synchroniser->core_.get(),
                   learner) {}

TrainedSet* UpdateAccess::set() const {
  return core_ == nullptr ? nullptr : core_->set;
}

double UpdateAccess::rate() const {
  return core_ == nullptr ? 1 : core_->learners[learner_].rate;
}

bool UpdateAccess::averages_gradients() const {
  return core_->traits.averages_gradients();
}

double UpdateAccess::share() const { return core_->learners[learner_].share; }

LearnerActivity* UpdateAccess::activity() const {
  return core_->learners[learner_].activity;
}

std::string UpdateAccess::error() const { return core_->error(); }

CentralModel::Variable& UpdateAccess::variable(int member) const {
  return core_->variable(member);
}

const void* UpdateAccess::Target(int member) const {
  return core_->IsDue(learner_) ? variable(member).z<void>() : nullptr;
}

const void* UpdateAccess::DeviceTarget(int member) const {
  if (!core_->IsDue(learner_)) return nullptr;
  return core_->queue->Target(learner_, core_->set->variable(member));
}

double UpdateAccess::Alpha(int member) const {
  return core_->algorithm->Alpha(core_->set->variable(member));
}

int UpdateAccess::SliceAt(int i, int num_slices) const {
  const int group = i / core_->num_learners * core_->num_learners;
  const int size = std::min(core_->num_learners, num_slices - group);
  return group + (i - group + learner_) % size;
}

bool UpdateAccess::updated(int member) const {
  return core_->learners[learner_].updated[member];
}

bool UpdateAccess::Enter(int member, int slice) const {
  if (!core_->AwaitTurn(learner_)) return false;
  if (!core_->traits.averages_models()) return true;
  const int index = core_->set->variable(member);
  std::atomic<int64_t>& state = core_->slices[index][slice].prepared;
  const int64_t done =
      2 * (core_->first_iteration + core_->learners[learner_].iteration);
  int64_t seen = state.load(std::memory_order_acquire);
  while (seen < done) {
    if (seen == done - 1) {  // another learner prepares it
      std::this_thread::yield();
      seen = state.load(std::memory_order_acquire);
    } else if (state.compare_exchange_weak(seen, done - 1, std::memory_order_acquire)) {
      const ScopedActivity averaging(core_->learners[learner_].activity,
                                     Activity::kAverage, index);
      core_->algorithm->PrepareSlice(*core_->set, member, slice, core_->IsDue(learner_),
                                     core_->participants_by_variable[index]);
      state.store(done, std::memory_order_release);
      break;
    }
  }
  return true;
}

bool UpdateAccess::EnterQueue(bool replays) const {
  const DeviceQueue::Iteration iteration{
      core_->set, core_->first_iteration + core_->learners[learner_].iteration,
      core_->IsDue(learner_), &core_->participants_by_variable};
  if (core_->queue->Enter(learner_, iteration, replays)) return true;
  core_->Abort(learner_);
  return false;
}

bool UpdateAccess::EnterAll(int member) const {
  if (!core_->AwaitTurn(learner_)) return false;
  if (core_->queue != nullptr) return EnterQueue(/*replays=*/false);
  const int num_slices = variable(member).num_slices();
  for (int i = 0; i < num_slices; ++i) {
    if (!Enter(member, SliceAt(i, num_slices))) return false;
  }
  return true;
}

bool UpdateAccess::EnterRecorded() const {
  if (!core_->AwaitTurn(learner_)) return false;
  if (core_->queue != nullptr && !EnterQueue(/*replays=*/true)) return false;
  for (int member = 0; member < core_->set->size(); ++member) {
    if (!core_->set->corrects_itself(member)) continue;
    if (core_->queue == nullptr && !EnterAll(member)) return false;
    Updated(member);
  }
  return true;
}

void UpdateAccess::Updated(int member) const {
  core_->learners[learner_].updated[member] = true;
}

}  // namespace tensorbow
