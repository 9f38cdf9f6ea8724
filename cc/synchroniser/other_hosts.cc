// The synchroniser's part of the host protocol: waiting, reporting, idle iterations.
#include <algorithm>
#include <utility>

#include "cc/support/flush_denormals.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/synchroniser_core.h"

namespace tensorbow {

bool SynchroniserCore::AwaitHosts(int learner) {
  if (rounds->clear()) return true;
  const ScopedActivity waiting(learners[learner].activity, Activity::kWait);
  if (rounds->Await() == HostRounds::Result::kCounts) return true;
  stopped_by_hosts.store(true);
  Abort(learner);
  return false;
}

void SynchroniserCore::CollectAll(const TrainedSet& trained_set) {
  for (int member = 0; member < trained_set.size(); ++member) {
    const int variable = trained_set.variable(member);
    algorithm->Collect(variable, trained_set.replicas(member), participants(variable));
  }
}

void SynchroniserCore::Report(const TrainedSet& trained_set, bool due,
                              HostRounds::Kind kind,
                              const std::vector<int>& participants) {
  HostRounds::Report report{kind, trained_set.program,
                            static_cast<int64_t>(participants.size()),
                            /*rows=*/0};
  std::vector<int> variables;
  for (int j : participants) {
    report.rows += std::max<int64_t>(1, learners[j].finished_rows);
  }
  // A lagging centre moves in iterations that correct.
  for (int member = 0; (due || !central->lags()) && member < trained_set.size();
       ++member) {
    variables.push_back(trained_set.variable(member));
  }
  const bool trained = kind == HostRounds::Kind::kTrained;
  rounds->Send(
      report,
      [model = central, variables = std::move(variables), trained,
       count = trained_set.count()] {
        for (int variable : variables) model->variable(variable).UndoIteration();
        if (trained) count->fetch_sub(1);  // EndRun() adds it
      },
      ArrivalOf(trained_set));
}

std::function<bool()> SynchroniserCore::ArrivalOf(const TrainedSet& trained_set) {
  if (!rounds->hosts()->elastic()) return nullptr;  // each slice waits by itself
  return [this, variables = trained_set.variables()] {
    bool arrived = true;
    for (int variable : variables) arrived &= algorithm->HasArrived(variable);
    return arrived;
  };
}

HostRounds::Result SynchroniserCore::JoinAs(const TrainedSet& trained_set, bool due,
                                            const HostRounds::Report& report) {
  const ScopedFlushDenormals flush;
  const HostRounds::Result result = rounds->Await();
  if (result != HostRounds::Result::kCounts) return result;
  CollectAll(trained_set);
  algorithm->Begin(trained_set);
  algorithm->Complete(trained_set, due, {});
  if (trained_set.host_gradients != nullptr) {
    trained_set.host_gradients->SendRest();
    const HostRounds::Result vote = VoteOn(trained_set, report);
    if (vote != HostRounds::Result::kCounts || rounds->counted()) return vote;
  }
  Report(trained_set, due, report.kind, {});
  return rounds->Await();
}

HostRounds::Result SynchroniserCore::VoteOn(const TrainedSet& trained_set,
                                            const HostRounds::Report& report) {
  HostGradients* const sums = trained_set.host_gradients.get();
  // Votes first: sums of hosts that do different things never end.
  bool awaited = false;
  rounds->Vote(report, [sums, &awaited] {
    awaited = true;
    return sums->Await();
  });
  const HostRounds::Result result = rounds->Await();
  if (!awaited) sums->Await();  // the next iteration starts with no sum under way
  return result;
}

}  // namespace tensorbow
