#include "cc/synchroniser/synchroniser.h"

#include <limits>
#include <numeric>
#include <utility>

#include "cc/support/flush_denormals.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/synchroniser_core.h"

namespace tensorbow {

Synchroniser::Synchroniser(int num_learners, CentralModel* central,
                           std::chrono::microseconds spin,
                           std::unique_ptr<Algorithm> algorithm, DeviceQueue* queue,
                           HostRounds* rounds)
    : core_(std::make_unique<SynchroniserCore>(num_learners, central, spin,
                                               std::move(algorithm), queue, rounds)) {}

Synchroniser::~Synchroniser() = default;

const Traits& Synchroniser::traits() const { return core_->traits; }

std::string Synchroniser::error() const { return core_->error(); }

void Synchroniser::set_activity(int learner, LearnerActivity* activity) {
  core_->learners[learner].activity = activity;
}

void Synchroniser::RunWithoutHosts(bool without_hosts) {
  core_->without_hosts = without_hosts;
}

bool Synchroniser::stopped_by_hosts() const { return core_->stopped_by_hosts.load(); }

void Synchroniser::SetAlpha(double alpha) { core_->algorithm->SetAlpha(alpha); }

std::vector<int> Synchroniser::participants(int variable) const {
  return core_->participants(variable);
}

void Synchroniser::SetParticipants(int variable, std::vector<int> learners) {
  core_->SetParticipants(variable, std::move(learners));
}

void Synchroniser::SetAllParticipants(int variable) {
  std::vector<int> all(core_->num_learners);
  std::iota(all.begin(), all.end(), 0);
  SetParticipants(variable, std::move(all));
}

void Synchroniser::ResetNonParticipants(const TrainedSet& set, int active) {
  core_->ResetNonParticipants(set, active);
}

void Synchroniser::BeginRun(TrainedSet* set, const TaskScheduler* scheduler) {
  core_->set = set;
  core_->scheduler = scheduler;
  core_->first_aborted.store(std::numeric_limits<int64_t>::max(),
                             std::memory_order_relaxed);
  core_->completed.store(0, std::memory_order_relaxed);
  core_->arrived.store(0, std::memory_order_relaxed);
  core_->nobody_took_part = false;
  core_->stopped_by_hosts.store(false, std::memory_order_relaxed);
  for (SynchroniserCore::Learner& learner : core_->learners) {
    learner.iteration = 0;
    learner.share = learner.rate = 1;
    learner.rows = 0;
    learner.took_part = -1;
    learner.updated.assign(set->size(), false);
    learner.remembered.assign(set->size(), false);
  }
  core_->slices.resize(core_->central->num_variables());
  for (int member = 0; member < set->size(); ++member) {
    auto& slices = core_->slices[set->variable(member)];
    if (slices == nullptr) {
      slices = std::make_unique<SynchroniserCore::SliceState[]>(
          core_->variable(member).num_slices());
    }
    SetParticipants(set->variable(member), participants(set->variable(member)));
  }
  const int num_points = set->num_gradients() + set->num_updates();
  if (core_->num_points < num_points) {
    core_->num_points = num_points;
    core_->points = std::make_unique<SynchroniserCore::Point[]>(core_->num_points);
  }
  core_->ClearPoints();
  if (core_->queue != nullptr) core_->queue->BeginRun(*set);
  if (set->host_gradients != nullptr) {
    set->host_gradients->Open();
    set->host_gradients->set_alone(core_->without_hosts);
  }
  core_->algorithm->Begin(*core_->set);
  ResetNonParticipants(*core_->set, core_->scheduler->participants(0));
}

int64_t Synchroniser::EndRun() {
  const int64_t over = core_->completed.load(std::memory_order_acquire);
  if (core_->rounds != nullptr && !core_->without_hosts && !stopped_by_hosts() &&
      core_->first_aborted.load() != std::numeric_limits<int64_t>::max() &&
      core_->rounds->Await() == HostRounds::Result::kCounts) {
    HostRounds::Report failed{HostRounds::Kind::kFailed, core_->set->program};
    if (!core_->voted.empty()) {
      // The others have updated what this host may have updated in part.
      failed.rows = HostRounds::kBehind;
      for (int j : core_->voted)
        core_->learners[j].finished_rows = core_->learners[j].rows;
      if (!core_->rounds->counted()) {
        core_->Report(*core_->set, core_->Due(over), HostRounds::Kind::kTrained,
                      core_->voted);
      }
      core_->rounds->CountOwn();
    }
    core_->JoinAs(*core_->set, core_->Due(over), failed);
  }
  core_->voted.clear();
  if (std::exchange(core_->without_hosts, false) &&
      core_->set->host_gradients != nullptr) {
    core_->set->host_gradients->Await();  // a task may have failed before the vote
    core_->set->host_gradients->set_alone(false);
  }
  const int64_t completed = core_->nobody_took_part ? over - 1 : over;
  if (core_->queue != nullptr) core_->queue->EndRun(*core_->set);
  const bool prepared = core_->nobody_took_part && core_->rounds == nullptr;
  for (int member = 0; prepared && member < core_->set->size(); ++member) {
    // The last iteration does not count, but may have overwritten the predecessor.
    if (!core_->set->corrects_itself(member))
      core_->central->ForgetMomentum(core_->set->variable(member));
  }
  core_->first_iteration += core_->scheduler->num_iterations();
  core_->set->count()->fetch_add(completed);
  core_->set = nullptr;
  core_->scheduler = nullptr;
  return completed;
}

void Synchroniser::Restart(const TrainedSet& set) {
  if (!core_->traits.averages_models()) return;
  const ScopedFlushDenormals flush;
  core_->SettleHosts();
  std::vector<int> all(core_->num_learners);
  std::iota(all.begin(), all.end(), 0);
  for (int member = 0; member < set.size(); ++member) {
    const int variable = set.variable(member);
    core_->algorithm->Reset(set, member, all, participants(variable));
    SetAllParticipants(variable);
    core_->central->ForgetMomentum(variable);
  }
}

std::string Synchroniser::Collect(int variable, const std::vector<void*>& replicas) {
  const ScopedFlushDenormals flush;
  core_->SettleHosts();
  return core_->algorithm->Collect(variable, replicas, participants(variable));
}

HostRounds::Result Synchroniser::JoinWithoutTask(const TrainedSet& set,
                                                 HostRounds::Kind kind) {
  const bool due = core_->IsDueIn(set, /*iteration=*/0);
  const HostRounds::Result result = core_->JoinAs(set, due, {kind, set.program});
  if (result == HostRounds::Result::kCounts) set.count()->fetch_add(1);
  return result;
}

}  // namespace tensorbow
