// What a synchroniser does with the other hosts of a cluster: it waits for them, tells
// them what becomes of an iteration, and takes part in theirs.
#include <algorithm>
#include <utility>

#include "cc/support/flush_denormals.h"
#include "cc/synchroniser/hosts/host_chunks.h"
#include "cc/synchroniser/hosts/host_gradients.h"
#include "cc/synchroniser/synchroniser.h"

namespace tensorbow {

bool Synchroniser::AwaitHosts(int learner) {
  if (rounds_->clear()) return true;
  const ScopedActivity waiting(learners_[learner].activity, Activity::kWait);
  if (rounds_->Await() == HostRounds::Fate::kCounts) return true;
  stopped_by_hosts_.store(true);
  Abort(learner);
  return false;
}

void Synchroniser::CollectAll(const TrainedSet& set) {
  for (int member = 0; member < set.size(); ++member) {
    const int variable = set.variable(member);
    algorithm_->Collect(variable, set.replicas(member), present(variable));
  }
}

void Synchroniser::Report(const TrainedSet& set, bool due, HostRounds::Kind kind,
                          const std::vector<int>& present) {
  HostRounds::Report report{kind, set.program, static_cast<int64_t>(present.size()),
                            /*rows=*/0};
  std::vector<int> variables;
  for (int j : present) {
    report.rows += std::max<int64_t>(1, learners_[j].finished_rows);
  }
  // A lagging centre moves in iterations that correct.
  for (int member = 0; (due || !central_->lags()) && member < set.size(); ++member) {
    variables.push_back(set.variable(member));
  }
  const bool trained = kind == HostRounds::Kind::kTrained;
  rounds_->Send(
      report,
      [central = central_, variables = std::move(variables), trained,
       count = set.count()] {
        for (int variable : variables) central->variable(variable).UndoIteration();
        if (trained) count->fetch_sub(1);  // which EndRun() counts, or has counted
      },
      ArrivalOf(set));
}

std::function<bool()> Synchroniser::ArrivalOf(const TrainedSet& set) {
  if (!rounds_->hosts()->elastic()) return nullptr;  // each slice waits for its own
  return [this, variables = VariablesOf(set)] {
    bool arrived = true;
    for (int variable : variables) arrived &= algorithm_->HasArrived(variable);
    return arrived;
  };
}

HostRounds::Fate Synchroniser::Attend(const TrainedSet& set, HostRounds::Kind kind) {
  const HostRounds::Fate fate =
      AttendAs(set, IsDueIn(set, /*iteration=*/0), {kind, set.program});
  if (fate == HostRounds::Fate::kCounts) set.count()->fetch_add(1);
  return fate;
}

HostRounds::Fate Synchroniser::AttendAs(const TrainedSet& set, bool due,
                                        const HostRounds::Report& report) {
  const ScopedFlushDenormals flush;
  const HostRounds::Fate fate = rounds_->Await();
  if (fate != HostRounds::Fate::kCounts) return fate;
  CollectAll(set);
  algorithm_->Begin(set);
  algorithm_->Complete(set, due, {});
  if (set.host_gradients != nullptr) {
    set.host_gradients->SendRest();
    const HostRounds::Fate vote = VoteOn(set, report);
    if (vote != HostRounds::Fate::kCounts || rounds_->counted()) return vote;
  }
  Report(set, due, report.kind, {});
  return rounds_->Await();
}

HostRounds::Fate Synchroniser::VoteOn(const TrainedSet& set,
                                      const HostRounds::Report& report) {
  HostGradients* const sums = set.host_gradients.get();
  // First the vote: hosts that do different things make sums that never end.
  bool awaited = false;
  rounds_->Vote(report, [sums, &awaited] {
    awaited = true;
    return sums->Await();
  });
  const HostRounds::Fate fate = rounds_->Await();
  if (!awaited) sums->Await();  // the next iteration begins with none under way
  return fate;
}

void Synchroniser::Vote(int learner, int point) {
  if (rehearses_) {
    set_->host_gradients->Await();
    return;
  }
  const ScopedActivity waiting(learners_[learner].activity, Activity::kWait);
  HostRounds::Report report{HostRounds::Kind::kTrained, set_->program};
  std::vector<int> present;
  for (int j = 0; j < num_learners_; ++j) {
    if (points_[point].brought[j] == nullptr) continue;
    present.push_back(j);
    ++report.tasks;
    const int64_t rows = learners_[j].rows;
    const bool known = rows != HostRounds::kUnknown && report.rows >= 0;
    report.rows =
        known ? report.rows + std::max<int64_t>(1, rows) : HostRounds::kUnknown;
  }
  if (VoteOn(*set_, report) == HostRounds::Fate::kCounts) {
    voted_ = std::move(present);
    return;
  }
  stopped_by_hosts_.store(true);
  Abort(learner);
}

}  // namespace tensorbow
