#include "cc/synchroniser/synchroniser.h"

#include <algorithm>
#include <limits>

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
  anybody_took_part_.store(false, std::memory_order_relaxed);
  for (LearnerState& learner : learners_) {
    learner.begun.store(0, std::memory_order_relaxed);
    learner.iteration = 0;
    learner.absent.store(-1, std::memory_order_relaxed);
    learner.updated.assign(set->size(), false);
    learner.remembered.assign(set->size(), false);
  }
  variables_.resize(central_->num_variables());
  Prepare(*set);
  const bool due = Due(*set, set->iterations);
  for (int member = 0; member < set->size(); ++member) {
    const int num_slices = variable(member).num_slices();
    VariableState& v = state(member);
    if (v.slices == nullptr) v.slices = std::make_unique<SliceState[]>(num_slices);
    const bool prepared =
        v.next == VariableState::kAny ||
        (v.next == VariableState::kForMomentum && v.momentum == set->momentum());
    for (int s = 0; s < num_slices; ++s) {
      v.slices[s].completed.store(0, std::memory_order_relaxed);
      v.slices[s].arrived.store(0, std::memory_order_relaxed);
      if (due && !prepared) PrepareNext(*set, member, s);
    }
  }
}

int64_t Synchroniser::EndRun() {
  const int64_t aborted = first_aborted_.load(std::memory_order_acquire);
  // With nobody there was no iteration: the data had ended.
  const bool anybody = anybody_took_part_.load(std::memory_order_acquire);
  const int64_t completed =
      anybody ? std::min(scheduler_->num_iterations(), aborted) : 0;
  for (int member = 0; member < set_->size(); ++member) {
    CentralModel::Variable& v = central_->variable(set_->variable(member));
    for (int s = 0; s < v.num_slices(); ++s) {
      // A slice may have completed an iteration that was aborted elsewhere.
      if (anybody &&
          state(member, s).completed.load(std::memory_order_acquire) > completed &&
          Due(*set_, set_->iterations + completed)) {
        v.RotateBack(s);
      }
    }
    const bool prepared = aborted > completed && completed > 0 &&
                          Due(*set_, set_->iterations + completed);
    state(member).next = prepared ? VariableState::kForMomentum : VariableState::kStale;
    state(member).momentum = set_->momentum();
  }
  set_->iterations += completed;
  set_ = nullptr;
  scheduler_ = nullptr;
  return completed;
}

void Synchroniser::Restart(const TrainedSet& set) {
  for (int member = 0; member < set.size(); ++member) {
    const int variable = set.variable(member);
    for (int learner = 0; learner < num_learners_; ++learner) {
      central_->CopyTo(variable, set.weights(learner, member));
    }
    central_->ForgetMomentum(variable);
    VariableAssigned(variable);
    // Narrow replicas are rounded: they do not equal z.
    const ElementType type = central_->variable(variable).type();
    if (ElementSizeBytes(type) < AccumulatorSizeBytes(type)) {
      variables_[variable].next = VariableState::kStale;
    }
  }
}

void Synchroniser::VariableAssigned(int variable) {
  variables_.resize(central_->num_variables());
  variables_[variable].next = VariableState::kAny;
}

// ------------------------------------------------------------------------- tasks

bool Synchroniser::TookPart(int learner, int64_t iteration) const {
  const LearnerState& l = learners_[learner];
  return l.begun.load(std::memory_order_acquire) > iteration &&
         l.absent.load(std::memory_order_acquire) != iteration;
}

bool Synchroniser::Aborted(int learner) const {
  return learners_[learner].iteration >= first_aborted_.load(std::memory_order_acquire);
}

bool Synchroniser::BeforeTask(int learner) {
  LearnerState& me = learners_[learner];
  me.begun.store(me.iteration + 1, std::memory_order_release);
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

bool Synchroniser::AfterTask(int learner) { return Arrive(learner, true); }

bool Synchroniser::SitOut(int learner) {
  learners_[learner].absent.store(learners_[learner].iteration,
                                  std::memory_order_release);
  return Arrive(learner, false);
}

// Leaves every slice that no update op has left.
bool Synchroniser::Arrive(int learner, bool took_part) {
  LearnerState& me = learners_[learner];
  if (took_part) anybody_took_part_.store(true, std::memory_order_release);
  const bool correct = took_part && IsDue(learner);
  for (int member = 0; member < set_->size(); ++member) {
    if (me.updated[member]) continue;
    const int num_slices = variable(member).num_slices();
    const int first = FirstSlice(learner, num_slices);
    for (int i = 0; i < num_slices; ++i) {
      const int s = (first + i) % num_slices;
      if (!Enter(learner, member, s)) return false;
      if (correct) Correct(learner, *set_, member, s, me.remembered[member]);
      Leave(learner, member, s);
    }
  }
  const bool aborted = Aborted(learner);
  ++me.iteration;
  return !aborted;
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
  const int64_t iteration = learners_[learner].iteration;
  const SliceState& s = state(member, slice);
  gate_.Await([&] {
    return s.completed.load(std::memory_order_acquire) >= iteration || Aborted(learner);
  });
  return !Aborted(learner);
}

bool Synchroniser::EnterAll(int learner, int member) {
  for (int s = 0; s < variable(member).num_slices(); ++s) {
    if (!Enter(learner, member, s)) return false;
  }
  return true;
}

void Synchroniser::Leave(int learner, int member, int slice) {
  const int64_t iteration = learners_[learner].iteration;
  SliceState& s = state(member, slice);
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 <
      scheduler_->participants(iteration)) {
    return;
  }
  s.arrived.store(0, std::memory_order_relaxed);
  CompleteSlice(member, slice, iteration);
  s.completed.store(iteration + 1, std::memory_order_release);
  gate_.Notify();
}

void Synchroniser::Updated(int learner, int member) {
  learners_[learner].updated[member] = true;
}

void Synchroniser::CompleteSlice(int member, int slice, int64_t iteration) {
  if (Due(*set_, set_->iterations + iteration)) {
    std::vector<int> absent;
    for (int j = 0; j < num_learners_; ++j) {
      if (!TookPart(j, iteration)) absent.push_back(j);
    }
    if (static_cast<int>(absent.size()) == num_learners_) return;
    if (!absent.empty()) Exclude(*set_, member, slice, absent);
    central_->variable(set_->variable(member)).Rotate(slice);
  }
  if (Due(*set_, set_->iterations + iteration + 1)) PrepareNext(*set_, member, slice);
}

}  // namespace tensorbow
