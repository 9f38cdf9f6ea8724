#include "cc/synchroniser/synchroniser.h"

#include <iterator>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "cc/support/flush_denormals.h"
#include "cc/synchroniser/hosts/host_gradients.h"

namespace tensorbow {
namespace {

std::vector<int> FirstLearners(int count) {
  std::vector<int> learners(count);
  std::iota(learners.begin(), learners.end(), 0);
  return learners;
}

}  // namespace

Synchroniser::Synchroniser(int num_learners, CentralModel* central,
                           std::chrono::microseconds spin,
                           std::unique_ptr<Algorithm> algorithm, DeviceQueue* queue,
                           HostRounds* rounds)
    : num_learners_(num_learners),
      central_(central),
      algorithm_(std::move(algorithm)),
      queue_(queue),
      rounds_(rounds),
      traits_(algorithm_->traits()),
      gate_(spin),
      learners_(num_learners) {}

// ------------------------------------------------------------------- between runs

std::vector<int> Synchroniser::present(int variable) const {
  if (variable < static_cast<int>(present_.size()) && !present_[variable].empty()) {
    return present_[variable];
  }
  return FirstLearners(num_learners_);
}

void Synchroniser::SetPresent(int variable, std::vector<int> learners) {
  if (variable >= static_cast<int>(present_.size())) present_.resize(variable + 1);
  present_[variable] = std::move(learners);
}

void Synchroniser::SetAllPresent(int variable) {
  SetPresent(variable, FirstLearners(num_learners_));
}

void Synchroniser::BeginRun(TrainedSet* set, const TaskScheduler* scheduler) {
  set_ = set;
  scheduler_ = scheduler;
  first_aborted_.store(std::numeric_limits<int64_t>::max(), std::memory_order_relaxed);
  completed_.store(0, std::memory_order_relaxed);
  arrived_.store(0, std::memory_order_relaxed);
  nobody_took_part_ = false;
  stopped_by_hosts_.store(false, std::memory_order_relaxed);
  for (LearnerState& learner : learners_) {
    learner.iteration = 0;
    learner.share = learner.rate = 1;
    learner.rows = 0;
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
    SetPresent(set->variable(member), present(set->variable(member)));
  }
  const int num_points = set->num_gradients() + set->num_updates();
  if (num_points_ < num_points) {
    num_points_ = num_points;
    points_ = std::make_unique<Point[]>(num_points_);
  }
  ClearPoints();
  if (queue_ != nullptr) queue_->BeginRun(*set);
  if (set->host_gradients != nullptr) {
    set->host_gradients->Open();
    set->host_gradients->set_alone(rehearses_);
  }
  algorithm_->Begin(*set_);
  ResetAbsent(*set_, scheduler_->participants(0));
}

void Synchroniser::ResetAbsent(const TrainedSet& set, int active) {
  if (!traits_.averages_models()) return;
  const std::vector<int> first = FirstLearners(active);
  const ScopedFlushDenormals flush;
  for (int member = 0; member < set.size(); ++member) {
    const std::vector<int> here = present(set.variable(member));
    std::vector<int> absent;
    std::set_difference(first.begin(), first.end(), here.begin(), here.end(),
                        std::back_inserter(absent));
    if (absent.empty()) continue;
    SettleHosts();
    algorithm_->Reset(set, member, absent, here);
  }
}

int64_t Synchroniser::EndRun() {
  const int64_t over = completed_.load(std::memory_order_acquire);
  if (rounds_ != nullptr && !rehearses_ && !stopped_by_hosts() &&
      first_aborted_.load() != std::numeric_limits<int64_t>::max() &&
      rounds_->Await() == HostRounds::Fate::kCounts) {
    HostRounds::Report failed{HostRounds::Kind::kFailed, set_->program};
    if (!voted_.empty()) {
      // The others have updated what this host may have updated in part.
      failed.rows = HostRounds::kBehind;
      for (int j : voted_) learners_[j].finished_rows = learners_[j].rows;
      if (!rounds_->counted()) {
        Report(*set_, Due(over), HostRounds::Kind::kTrained, voted_);
      }
      rounds_->CountOwn();
    }
    AttendAs(*set_, Due(over), failed);
  }
  voted_.clear();
  if (std::exchange(rehearses_, false) && set_->host_gradients != nullptr) {
    set_->host_gradients->Await();  // where a task has failed before it was voted on
    set_->host_gradients->set_alone(false);
  }
  const int64_t completed = nobody_took_part_ ? over - 1 : over;
  if (queue_ != nullptr) queue_->EndRun(*set_);
  const bool prepared = nobody_took_part_ && rounds_ == nullptr;
  for (int member = 0; prepared && member < set_->size(); ++member) {
    // z after an iteration that was none may have been prepared in the predecessor's
    // place.
    if (!set_->corrects_itself(member))
      central_->ForgetMomentum(set_->variable(member));
  }
  first_iteration_ += scheduler_->num_iterations();
  set_->count()->fetch_add(completed);
  set_ = nullptr;
  scheduler_ = nullptr;
  return completed;
}

void Synchroniser::Restart(const TrainedSet& set) {
  if (!traits_.averages_models()) return;
  const ScopedFlushDenormals flush;
  SettleHosts();
  const std::vector<int> all = FirstLearners(num_learners_);
  for (int member = 0; member < set.size(); ++member) {
    const int variable = set.variable(member);
    algorithm_->Reset(set, member, all, present(variable));
    SetAllPresent(variable);
    central_->ForgetMomentum(variable);
  }
}

std::string Synchroniser::Collect(int variable, const std::vector<void*>& replicas) {
  const ScopedFlushDenormals flush;
  SettleHosts();
  return algorithm_->Collect(variable, replicas, present(variable));
}

// ------------------------------------------------------------------------- tasks

bool Synchroniser::Aborted(int learner) const {
  return learners_[learner].iteration >= first_aborted_.load(std::memory_order_acquire);
}

bool Synchroniser::AwaitTurn(int learner) {
  const int64_t iteration = learners_[learner].iteration;
  if (completed_.load(std::memory_order_acquire) < iteration) {
    const ScopedActivity waiting(learners_[learner].activity, Activity::kWait);
    gate_.Await([&] {
      return completed_.load(std::memory_order_acquire) >= iteration ||
             Aborted(learner);
    });
  }
  return !Aborted(learner) && (rounds_ == nullptr || AwaitHosts(learner));
}

bool Synchroniser::BeforeTask(int learner) {
  LearnerState& me = learners_[learner];
  me.rows = HostRounds::kUnknown;
  std::fill(me.updated.begin(), me.updated.end(), false);
  std::fill(me.remembered.begin(), me.remembered.end(), false);
  for (int member = 0; traits_.averages_models() && member < set_->size(); ++member) {
    if (set_->corrects_itself(member)) continue;
    if (!EnterAll(learner, member)) return false;
    if (!IsDue(learner)) continue;
    const ScopedActivity correcting(me.activity, Activity::kCorrect,
                                    set_->variable(member));
    algorithm_->Remember(learner, *set_, member);
    me.remembered[member] = true;
  }
  return !Aborted(learner);
}

bool Synchroniser::AfterTask(int learner) {
  LearnerState& me = learners_[learner];
  for (int member = 0; traits_.averages_models() && member < set_->size(); ++member) {
    if (me.updated[member]) continue;
    // Also where nobody corrects: every iteration prepares every slice, since z of each
    // is part of the central model's average.
    if (!EnterAll(learner, member)) return false;
    if (!IsDue(learner)) continue;
    const ScopedActivity correcting(me.activity, Activity::kCorrect,
                                    set_->variable(member));
    algorithm_->Correct(learner, *set_, member, me.remembered[member]);
  }
  return Finish(learner, /*took_part=*/true);
}

bool Synchroniser::SitOut(int learner) { return Finish(learner, /*took_part=*/false); }

bool Synchroniser::Finish(int learner, bool took_part) {
  // Until then somebody may be completing the iteration before.
  if (!AwaitTurn(learner)) return false;
  if (queue_ != nullptr) queue_->Finished(learner);
  const int num_points = set_->num_gradients() + set_->num_updates();
  for (int i = 0; i < num_points; ++i) {
    if (points_[i].brought[learner] == nullptr) {
      points_[i].arrived.fetch_add(1, std::memory_order_acq_rel);
    }
  }
  if (num_points > 0) gate_.Notify();
  const int64_t iteration = learners_[learner].iteration++;
  if (took_part) learners_[learner].took_part = iteration;
  learners_[learner].finished_rows = learners_[learner].rows;
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
  std::vector<int> present;
  for (int j = 0; j < num_learners_; ++j) {
    if (learners_[j].took_part == iteration) present.push_back(j);
  }
  ClearPoints();
  if (rehearses_) return;
  nobody_took_part_ = present.empty();
  if (nobody_took_part_) {
    // Who averages gradients takes part without a task between runs.
    if (rounds_ == nullptr || set_->host_gradients != nullptr) return;
    CollectAll(*set_);
  }
  algorithm_->Complete(*set_, Due(iteration), present);
  for (int member = 0; member < set_->size(); ++member) {
    present_[set_->variable(member)] = present;
  }
  if (rounds_ == nullptr) return;
  voted_.clear();
  if (set_->host_gradients != nullptr && rounds_->counted()) return;
  Report(*set_, Due(iteration),
         present.empty() ? HostRounds::Kind::kNoData : HostRounds::Kind::kTrained,
         present);
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
  if (!traits_.averages_models()) return true;
  const int index = set_->variable(member);
  std::atomic<int64_t>& state = slices_[index][slice].prepared;
  const int64_t done = 2 * (first_iteration_ + learners_[learner].iteration);
  int64_t seen = state.load(std::memory_order_acquire);
  while (seen < done) {
    if (seen == done - 1) {  // somebody is at it
      std::this_thread::yield();
      seen = state.load(std::memory_order_acquire);
    } else if (state.compare_exchange_weak(seen, done - 1, std::memory_order_acquire)) {
      const ScopedActivity averaging(learners_[learner].activity, Activity::kAverage,
                                     index);
      algorithm_->PrepareSlice(*set_, member, slice, IsDue(learner), present_[index]);
      state.store(done, std::memory_order_release);
      break;
    }
  }
  return true;
}

bool Synchroniser::EnterQueue(int learner, bool replays) {
  const DeviceQueue::Iteration iteration{
      set_, first_iteration_ + learners_[learner].iteration, IsDue(learner), &present_};
  if (queue_->Enter(learner, iteration, replays)) return true;
  Abort(learner);
  return false;
}

bool Synchroniser::EnterAll(int learner, int member) {
  if (!AwaitTurn(learner)) return false;
  if (queue_ != nullptr) return EnterQueue(learner, /*replays=*/false);
  const int num_slices = variable(member).num_slices();
  for (int i = 0; i < num_slices; ++i) {
    if (!Enter(learner, member, SliceAt(learner, i, num_slices))) return false;
  }
  return true;
}

bool Synchroniser::EnterReplay(int learner) {
  if (!AwaitTurn(learner)) return false;
  if (queue_ != nullptr && !EnterQueue(learner, /*replays=*/true)) return false;
  for (int member = 0; member < set_->size(); ++member) {
    if (!set_->corrects_itself(member)) continue;
    if (queue_ == nullptr && !EnterAll(learner, member)) return false;
    Updated(learner, member);
  }
  return true;
}

void Synchroniser::Updated(int learner, int member) {
  learners_[learner].updated[member] = true;
}

// ------------------------------------------------------------------------ points

void Synchroniser::ClearPoints() {
  for (int i = 0; i < num_points_; ++i) {
    points_[i].brought.assign(num_learners_, nullptr);
    points_[i].arrived.store(0, std::memory_order_relaxed);
    points_[i].staying.store(0, std::memory_order_relaxed);
  }
}

std::vector<const void*> Synchroniser::AllGather(int learner, int point,
                                                 const void* brought) {
  if (!AwaitTurn(learner)) return {};
  Point& p = points_[point];
  p.brought[learner] = brought;
  p.staying.fetch_add(1, std::memory_order_relaxed);
  p.arrived.fetch_add(1, std::memory_order_acq_rel);
  gate_.Notify();
  const int expected = participants(learner);
  const auto complete = [&] {
    return p.arrived.load(std::memory_order_acquire) >= expected;
  };
  if (!complete()) {
    const ScopedActivity waiting(activity(learner), Activity::kWait);
    gate_.Await([&] { return complete() || Aborted(learner); });
  }
  if (!complete()) return {};
  // Everybody has arrived: nobody can abort this iteration between here and its end.
  std::vector<const void*> all;
  std::copy_if(p.brought.begin(), p.brought.end(), std::back_inserter(all),
               [](const void* b) { return b != nullptr; });
  return all;
}

void Synchroniser::Release(int learner, int point) {
  Point& p = points_[point];
  p.staying.fetch_sub(1, std::memory_order_acq_rel);
  gate_.Notify();
  const auto released = [&] { return p.staying.load(std::memory_order_acquire) == 0; };
  if (released()) return;
  const ScopedActivity waiting(activity(learner), Activity::kWait);
  gate_.Await(released);
}

}  // namespace tensorbow
