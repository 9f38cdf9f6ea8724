#include "cc/synchroniser/synchroniser_core.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "cc/support/flush_denormals.h"

namespace tensorbow {
namespace {

std::vector<int> FirstLearners(int count) {
  std::vector<int> learners(count);
  std::iota(learners.begin(), learners.end(), 0);
  return learners;
}

}  // namespace

SynchroniserCore::SynchroniserCore(int learner_count, CentralModel* model,
                                   std::chrono::microseconds spin,
                                   std::unique_ptr<Algorithm> made,
                                   DeviceQueue* streams, HostRounds* host_rounds)
    : num_learners(learner_count),
      central(model),
      algorithm(std::move(made)),
      queue(streams),
      rounds(host_rounds),
      traits(algorithm->traits()),
      gate(spin),
      learners(num_learners) {}

void SynchroniserCore::Abort(int learner) {
  int64_t first = first_aborted.load(std::memory_order_relaxed);
  const int64_t mine = learners[learner].iteration;
  while (mine < first &&
         !first_aborted.compare_exchange_weak(first, mine, std::memory_order_acq_rel)) {
  }
  gate.Notify();
}

bool SynchroniserCore::AwaitTurn(int learner) {
  const int64_t iteration = learners[learner].iteration;
  if (completed.load(std::memory_order_acquire) < iteration) {
    const ScopedActivity waiting(learners[learner].activity, Activity::kWait);
    gate.Await([&] {
      return completed.load(std::memory_order_acquire) >= iteration || Aborted(learner);
    });
  }
  return !Aborted(learner) && (rounds == nullptr || AwaitHosts(learner));
}

void SynchroniserCore::Complete(int64_t iteration) {
  std::vector<int> participants;
  for (int j = 0; j < num_learners; ++j) {
    if (learners[j].took_part == iteration) participants.push_back(j);
  }
  ClearPoints();
  if (without_hosts) return;
  nobody_took_part = participants.empty();
  if (nobody_took_part) {
    // Hosts that average gradients join without a task between runs.
    if (rounds == nullptr || set->host_gradients != nullptr) return;
    CollectAll(*set);
  }
  algorithm->Complete(*set, Due(iteration), participants);
  for (int member = 0; member < set->size(); ++member) {
    participants_by_variable[set->variable(member)] = participants;
  }
  if (rounds == nullptr) return;
  voted.clear();
  if (set->host_gradients != nullptr && rounds->counted()) return;
  Report(*set, Due(iteration),
         participants.empty() ? HostRounds::Kind::kNoData : HostRounds::Kind::kTrained,
         participants);
}

void SynchroniserCore::ClearPoints() {
  for (int i = 0; i < num_points; ++i) {
    points[i].brought.assign(num_learners, nullptr);
    points[i].arrived.store(0, std::memory_order_relaxed);
    points[i].staying.store(0, std::memory_order_relaxed);
  }
}

std::vector<int> SynchroniserCore::participants(int variable) const {
  if (variable < static_cast<int>(participants_by_variable.size()) &&
      !participants_by_variable[variable].empty()) {
    return participants_by_variable[variable];
  }
  return FirstLearners(num_learners);
}

void SynchroniserCore::SetParticipants(int variable, std::vector<int> participants) {
  if (variable >= static_cast<int>(participants_by_variable.size()))
    participants_by_variable.resize(variable + 1);
  participants_by_variable[variable] = std::move(participants);
}

void SynchroniserCore::ResetNonParticipants(const TrainedSet& trained_set, int active) {
  if (!traits.averages_models()) return;
  const std::vector<int> first = FirstLearners(active);
  const ScopedFlushDenormals flush;
  for (int member = 0; member < trained_set.size(); ++member) {
    const std::vector<int> here = participants(trained_set.variable(member));
    std::vector<int> idle;
    std::set_difference(first.begin(), first.end(), here.begin(), here.end(),
                        std::back_inserter(idle));
    if (idle.empty()) continue;
    SettleHosts();
    algorithm->Reset(trained_set, member, idle, here);
  }
}

}  // namespace tensorbow
