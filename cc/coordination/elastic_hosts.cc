#include "cc/coordination/elastic_hosts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/coordination/host_values.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// No variable has such a name.
constexpr char kCounts[] = "_tensorbow/counts";

// The fields of a host's message when hosts regroup.
enum Field { kDecided, kResult, kLostBetween, kBehind, kLeaves, kProgram };
// The decided rounds of a host that rejoins.
constexpr int64_t kNothing = -1;

bool HasReturned(const std::vector<int64_t>& message) {
  return message[kDecided] == kNothing;
}

// Ends training on all hosts.
absl::Status GiveUp(Hosts* hosts, const absl::Status& error) {
  hosts->Fail(std::string(error.message()));
  return error;
}

absl::Status GiveUpBetween(Hosts* hosts, const std::string& why) {
  return GiveUp(
      hosts, absl::UnavailableError(absl::StrCat(
                 why,
                 ". It was lost while hosts exchanged variables or states. Start all "
                 "hosts again, from the last saved state")));
}

// Returns the most advanced host of those that have the model, or -1.
int MostAdvanced(const std::vector<int>& members,
                 const std::vector<std::vector<int64_t>>& all) {
  int leader = -1;
  for (int host : members) {
    if (all[host][kBehind] != 0 || HasReturned(all[host])) continue;
    if (leader < 0 || all[host][kDecided] > all[leader][kDecided]) leader = host;
  }
  return leader;
}

std::string RegroupedText(const std::string& why, const std::vector<int>& members,
                          const std::vector<int>& back, int64_t iterations) {
  const std::string all = absl::StrJoin(members, ", ");
  if (back.empty()) {
    return absl::StrCat(
        "A host of the cluster is lost: ", why,
        ". The other hosts continue from the last complete iteration: ", all);
  }
  return absl::StrCat(
      "A lost host has rejoined the cluster: ", absl::StrJoin(back, ", "),
      ". Hosts that train from iteration ", iterations, " on: ", all);
}

}  // namespace

// ------------------------------------------------------------------- the model

absl::StatusOr<bool> ElasticHosts::FetchModelOf(int host, bool everything) {
  TF_ASSIGN_OR_RETURN(HostValues values, training_->Model(everything));
  const HostRounds::Counts own = training_->counts();
  const HostRounds::Counts others = counts();
  tf::Tensor& counts = values[kCounts] = tf::Tensor(tf::DT_INT64, {4});
  counts.vec<int64_t>()(0) = own.iterations + others.iterations;
  counts.vec<int64_t>()(1) = own.tasks + others.tasks;
  counts.vec<int64_t>()(2) = own.rows + others.rows;
  counts.vec<int64_t>()(3) = last_set_ == nullptr ? 0 : last_set_->iterations();
  if (!TakeValuesOf(rounds_->hosts(), host, &values).empty()) return false;
  adopted_ = std::move(values);
  return true;
}

absl::Status ElasticHosts::Adopt() {
  const HostValues values = *std::exchange(adopted_, std::nullopt);
  training_->RequestRestart();
  const auto counts = values.at(kCounts).vec<int64_t>();
  const HostRounds::Counts own = training_->counts();
  rounds_->SetCounts(
      {counts(0) - own.iterations, counts(1) - own.tasks, counts(2) - own.rows});
  return training_->SetModel(values, /*everything=*/rejoining_);
}

absl::Status ElasticHosts::CatchUp(const std::vector<int>&) {
  const Result result = rounds_->Await();
  if (result != Result::kNone && result != Result::kDiscarded) return absl::OkStatus();
  return CatchUpByModel();
}

absl::Status ElasticHosts::CatchUpByModel() {
  if (!training_->averages_gradients()) return absl::OkStatus();
  const bool behind = rounds_->behind();
  const HostRounds::Stragglers stragglers = rounds_->TakeStragglers();
  if (stragglers.hosts.empty() || stragglers.leader < 0) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const bool fetched,
                      FetchModelOf(stragglers.leader, /*everything=*/false));
  if (!fetched) TF_RETURN_IF_ERROR(Regroup({behind}).status());
  return Adopt();
}

// -------------------------------------------------------------------- regrouping

absl::StatusOr<ElasticHosts::Regrouped> ElasticHosts::Regroup(Reason reason) {
  Hosts* const hosts = rounds_->hosts();
  const std::string why = hosts->error();
  for (;; reason.rejoins = false) {
    const HostRounds::Progress own = rounds_->progress();
    std::vector<std::vector<int64_t>> all;
    const std::string error = hosts->Regroup(
        {rejoining_ ? kNothing : own.decided, static_cast<int64_t>(own.result),
         /*lost_between=*/0, reason.behind, reason.leaves, reason.program},
        reason.rejoins, &all);
    if (!error.empty()) return absl::UnavailableError(error);
    const std::vector<int> members = hosts->members();
    Regrouped found;
    std::vector<int> back;
    found.all_leave = true;
    for (int host : members) {
      if (all[host][kLostBetween] != 0) return GiveUpBetween(hosts, why);
      if (HasReturned(all[host])) {
        back.push_back(host);
        continue;
      }
      found.all_leave &= all[host][kLeaves] != 0;
      found.same_program &=
          all[host][kLeaves] != 0 || all[host][kProgram] == reason.program;
    }
    const int leader = MostAdvanced(members, all);
    if (leader < 0) {
      return GiveUp(hosts, absl::UnavailableError(absl::StrCat(
                               why,
                               ". No remaining host has the last update of the lost "
                               "hosts. Start all hosts again, from the last saved "
                               "state")));
    }
    TF_ASSIGN_OR_RETURN(const bool fetched, FetchModelOf(leader, !back.empty()));
    if (!fetched) continue;     // another host is lost
    rounds_->TakeStragglers();  // there are none now
    const auto counts = adopted_->at(kCounts).vec<int64_t>();
    found.set_iterations = counts(3);
    training_->Warn(RegroupedText(why, members, back, counts(0)));
    found.decided = rounds_->Resume(
        {all[leader][kDecided], static_cast<Result>(all[leader][kResult])});
    return found;
  }
}

absl::Status ElasticHosts::LostBetween(const std::string& why) {
  // The others are told, who may be waiting for this one.
  const HostRounds::Progress own = rounds_->progress();
  std::vector<std::vector<int64_t>> all;
  rounds_->hosts()->Regroup({own.decided, static_cast<int64_t>(own.result),
                             /*lost_between=*/1, /*behind=*/0, /*leaves=*/0,
                             /*program=*/0},
                            /*admits=*/false, &all);
  return GiveUpBetween(rounds_->hosts(), why);
}

absl::Status ElasticHosts::AgreeOn(int64_t number) {
  while (!rounds_->Agree(number)) {
    if (rounds_->Await() != Result::kBroken) return IterationError();
    TF_ASSIGN_OR_RETURN(const Regrouped found, Regroup({rounds_->behind()}));
    TF_RETURN_IF_ERROR(Adopt());
    if (!found.decided) continue;
    return rounds_->Await() == Result::kCounts ? absl::OkStatus() : IterationError();
  }
  return absl::OkStatus();
}

// ------------------------------------------------------------------- iterations

absl::StatusOr<ElasticHosts::Outcome> ElasticHosts::AwaitOutcome(const TrainedSet* set,
                                                                 bool may_repeat) {
  Outcome found;
  found.result = rounds_->Await();
  if (found.result != Result::kBroken) return found;
  TF_ASSIGN_OR_RETURN(const Regrouped regrouped, Regroup({rounds_->behind()}));
  found.taken_over = regrouped.decided;
  found.again = !found.taken_over;
  found.result = rounds_->Await();
  const bool counts = found.taken_over && found.result == Result::kCounts;
  if (counts && may_repeat && training_->averages_gradients()) {
    found.again = true;
    return found;
  }
  if (counts && set != nullptr) set->count()->fetch_add(1);
  TF_RETURN_IF_ERROR(Adopt());
  return found;
}

absl::StatusOr<bool> ElasticHosts::AfterRun(const HostRun& run) {
  RememberRun(run);
  if (adopted_.has_value()) TF_RETURN_IF_ERROR(Adopt());  // the run was a repetition
  const bool failed = run.failed && !run.stopped_by_hosts;
  TF_ASSIGN_OR_RETURN(const Outcome found,
                      AwaitOutcome(run.set, /*may_repeat=*/run.has_data && !failed));
  if (!run.has_data && !failed) return AfterRunWithoutData(run, found);
  if (found.result == Result::kCounts) return found.again && !failed;
  const absl::Status error = IterationError();
  TF_RETURN_IF_ERROR(CatchUpByModel());
  if (!failed) TF_RETURN_IF_ERROR(error);  // else the user gets the run's own error
  return found.again && !failed;
}

absl::StatusOr<bool> ElasticHosts::AfterRunWithoutData(const HostRun& run,
                                                       Outcome found) {
  if (found.result == Result::kCounts && run.set->host_gradients == nullptr &&
      !found.again && !found.taken_over) {
    run.set->count()->fetch_add(1);  // an iteration of the others
  }
  while (found.result == Result::kCounts) {
    TF_RETURN_IF_ERROR(LetHostsRejoin(run.set->program, /*leaves=*/false));
    found.result = training_->JoinWithoutTask(*run.set, HostRounds::Kind::kNoData);
    if (found.result != Result::kBroken) continue;
    TF_ASSIGN_OR_RETURN(found, AwaitOutcome(run.set, /*may_repeat=*/false));
  }
  const absl::Status error = IterationError();
  TF_RETURN_IF_ERROR(CatchUpByModel());
  if (found.result != Result::kNone) TF_RETURN_IF_ERROR(error);
  return false;
}

absl::StatusOr<HostRounds::Result> ElasticHosts::JoinAsLeft(const TrainedSet* set) {
  if (set != nullptr) {
    TF_RETURN_IF_ERROR(LetHostsRejoin(set->program, /*leaves=*/true));
  }
  TF_ASSIGN_OR_RETURN(const Result result, ConnectedHosts::JoinAsLeft(set));
  if (result != Result::kBroken) return result;
  TF_ASSIGN_OR_RETURN(const Outcome found, AwaitOutcome(set, /*may_repeat=*/false));
  return found.result;
}

// -------------------------------------------------------------------- rejoining

absl::Status ElasticHosts::BeforeRun(const HostRun& run) {
  if (run.has_data && !run.knows_rows && training_->averages_gradients()) {
    // They cannot undo an update, so they count rows before it.
    return absl::FailedPreconditionError(
        "Elastic hosts that average gradients have to know the rows of a learning run "
        "before it is executed. Use tensorbow.SMA(), or leave out "
        "Options(elements=\"one_each\")");
  }
  Hosts* const hosts = rounds_->hosts();
  const int64_t variables = training_->num_variables();
  if (std::exchange(described_, variables) != variables) {
    const std::string text =
        absl::StrCat(training_->DescribeOptions(), training_->DescribeVariables());
    hosts->Describe(static_cast<int64_t>(tf::Hash64(text) | 1));  // not 0
  }
  if (hosts->rejoins()) return Rejoin(run);
  return LetHostsRejoin(run.set->program, /*leaves=*/false);
}

absl::Status ElasticHosts::LetHostsRejoin(int64_t program, bool leaves) {
  if (!rounds_->admits() || adopted_.has_value()) return absl::OkStatus();
  // Some may come to this later than others.
  const auto all_here = rounds_->hosts()->NewSum(Hosts::Type::kInt64, 1);
  all_here->Start();
  Reason reason;
  reason.rejoins = all_here->Await().empty();
  reason.behind = rounds_->behind();
  reason.leaves = leaves;
  reason.program = program;
  TF_RETURN_IF_ERROR(Regroup(reason).status());
  return Adopt();
}

absl::Status ElasticHosts::Rejoin(const HostRun& run) {
  rejoining_ = true;
  Reason reason;
  reason.program = run.set->program;
  TF_ASSIGN_OR_RETURN(const Regrouped found, Regroup(reason));
  std::optional<HostValues> last;
  if (found.all_leave) last = adopted_;
  TF_RETURN_IF_ERROR(Adopt());
  rejoining_ = found.all_leave;
  // If nobody trains any more, the run is made for its fetches.
  adopted_ = std::move(last);
  run.set->set_iterations(found.set_iterations);
  if (found.same_program) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "This host was restarted and executes another learning run than the other hosts. "
      "In a program with several learning runs, choose the run by session.iterations");
}

}  // namespace tensorbow
