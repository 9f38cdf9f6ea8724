#include "cc/synchroniser/synchroniser.h"

#include <algorithm>
#include <limits>
#include <thread>

namespace tensorbow {

Synchroniser::Synchroniser(int num_learners, CentralModel* central,
                           std::chrono::microseconds spin)
    : num_learners_(num_learners),
      central_(central),
      gate_(spin),
      learners_(num_learners) {}

// ------------------------------------------------------------------- between runs

void Synchroniser::BeginRun(TrainedSet* set, const TaskScheduler* scheduler) {
  set_ = set;
  scheduler_ = scheduler;
  first_aborted_.store(std::numeric_limits<int64_t>::max(), std::memory_order_relaxed);
  completed_.store(0, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  nobody_took_part_ = false;
  for (LearnerState& learner : learners_) {
    learner.iteration = 0;
    learner.took_part = -1;
    learner.updated.assign(set->size(), false);
    learner.remembered.assign(set->size(), false);
  }
  slices_.resize(central_->num_variables());
  for (int member = 0; member < set->size(); ++member) {
    auto& slices = slices_[set->variable(member)];
    if (slices == nullptr) {
      slices = std::make_unique<SliceState[]>(variable(member).num_slices());
    }
  }
  Prepare(*set);
}

int64_t Synchroniser::EndRun() {
  int64_t completed = completed_.load(std::memory_order_acquire);
  if (nobody_took_part_) --completed;
  Ending(*set_, nobody_took_part_);
  first_iteration_ += scheduler_->num_iterations();
  set_->iterations += completed;
  set_ = nullptr;
  scheduler_ = nullptr;
  return completed;
}

void Synchroniser::Ending(const TrainedSet& set, bool in_vain) {
  if (!in_vain) return;
  // z after an iteration that was none has been prepared where BeforeTask() had to: the
  // central momentum starts anew there.
  for (int member = 0; member < set.size(); ++member) {
    if (!set.corrects_itself(member)) central_->ForgetMomentum(set.variable(member));
  }
}

void Synchroniser::Restart(const TrainedSet& set) {
  for (int member = 0; member < set.size(); ++member) {
    const int variable = set.variable(member);
    for (int learner = 0; learner < num_learners_; ++learner) {
      central_->CopyTo(variable, CentralModel::Which::kCurrent,
                       set.weights(learner, member));
    }
    central_->ForgetMomentum(variable);
  }
}

// ------------------------------------------------------------------------- tasks

bool Synchroniser::Aborted(int learner) const {
  return learners_[learner].iteration >= first_aborted_.load(std::memory_order_acquire);
}

bool Synchroniser::AwaitTurn(int learner) {
  const int64_t iteration = learners_[learner].iteration;
  if (completed_.load(std::memory_order_acquire) < iteration) {
    gate_.Await([&] {
      return completed_.load(std::memory_order_acquire) >= iteration ||
             Aborted(learner);
    });
  }
  return !Aborted(learner);
}

bool Synchroniser::BeforeTask(int learner) {
  LearnerState& me = learners_[learner];
  std::fill(me.updated.begin(), me.updated.end(), false);
  std::fill(me.remembered.begin(), me.remembered.end(), false);
  if (!IsDue(learner)) return !Aborted(learner);
  for (int member = 0; member < set_->size(); ++member) {
    if (set_->corrects_itself(member)) continue;
    if (!EnterAll(learner, member)) return false;
    Remember(learner, *set_, member);
    me.remembered[member] = true;
  }
  return !Aborted(learner);
}

bool Synchroniser::AfterTask(int learner) {
  LearnerState& me = learners_[learner];
  if (IsDue(learner)) {
    for (int member = 0; member < set_->size(); ++member) {
      if (me.updated[member]) continue;
      if (!EnterAll(learner, member)) return false;
      Correct(learner, *set_, member, me.remembered[member]);
    }
  }
  return Finish(learner, /*took_part=*/true);
}

bool Synchroniser::SitOut(int learner) { return Finish(learner, /*took_part=*/false); }

bool Synchroniser::Finish(int learner, bool took_part) {
  // Until then somebody may be completing the iteration before.
  if (!AwaitTurn(learner)) return false;
  Leaving(learner);
  const int64_t iteration = learners_[learner].iteration++;
  if (took_part) learners_[learner].took_part = iteration;
  const int before = arrived_.fetch_add(1, std::memory_order_acq_rel);
  if (before + 1 == scheduler_->participants(iteration)) {
    arrived_.store(0, std::memory_order_relaxed);
    Complete(iteration);
    completed_.store(iteration + 1, std::memory_order_release);
    gate_.Notify();
  }
  return !Aborted(learner);
}

void Synchroniser::Complete(int64_t iteration) {
  Completing();
  std::vector<int> absent;
  for (int j = 0; j < num_learners_; ++j) {
    if (learners_[j].took_part != iteration) absent.push_back(j);
  }
  nobody_took_part_ = static_cast<int>(absent.size()) == num_learners_;
  if (nobody_took_part_ || !Due(*set_, set_->iterations + iteration)) return;
  Publish(*set_, absent);
}

void Synchroniser::Publish(const TrainedSet& set, const std::vector<int>& absent) {
  for (int member = 0; member < set.size(); ++member) {
    if (!absent.empty()) Exclude(set, member, absent);
    central_->variable(set.variable(member)).Swap();
  }
}

void Synchroniser::Abort(int learner) {
  int64_t first = first_aborted_.load(std::memory_order_relaxed);
  const int64_t mine = learners_[learner].iteration;
  while (mine < first && !first_aborted_.compare_exchange_weak(
                             first, mine, std::memory_order_acq_rel)) {
  }
  gate_.Notify();
}

// ------------------------------------------------------------------------ slices

bool Synchroniser::Enter(int learner, int member, int slice) {
  if (!AwaitTurn(learner)) return false;
  if (!IsDue(learner)) return true;
  std::atomic<int64_t>& state = slices_[set_->variable(member)][slice].prepared;
  const int64_t done = 2 * (first_iteration_ + learners_[learner].iteration);
  int64_t seen = state.load(std::memory_order_acquire);
  while (seen < done) {
    if (seen == done - 1) {  // somebody is at it
      std::this_thread::yield();
      seen = state.load(std::memory_order_acquire);
    } else if (state.compare_exchange_weak(seen, done - 1, std::memory_order_acquire)) {
      central_->variable(set_->variable(member)).TakeIn(slice);
      PrepareNext(*set_, member, slice);
      state.store(done, std::memory_order_release);
      break;
    }
  }
  return true;
}

bool Synchroniser::EnterAll(int learner, int member) {
  if (!AwaitTurn(learner)) return false;
  const int num_slices = variable(member).num_slices();
  for (int i = 0; i < num_slices; ++i) {
    if (!Enter(learner, member, SliceAt(learner, i, num_slices))) return false;
  }
  return true;
}

bool Synchroniser::EnterReplay(int learner) {
  for (int member = 0; member < set_->size(); ++member) {
    if (!set_->corrects_itself(member)) continue;
    if (!EnterAll(learner, member)) return false;
    Updated(learner, member);
  }
  return !Aborted(learner);
}

void Synchroniser::Updated(int learner, int member) {
  learners_[learner].updated[member] = true;
}

}  // namespace tensorbow
