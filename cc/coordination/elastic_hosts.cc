// Training on when a host of a cluster has died or hangs: what Trainer does with those
// that are left.
//
// On elastic hosts a run ends when its iteration is known to count: all have reported,
// and all sums have arrived. If they do not, with a host that is lost, those that are
// left regroup (Hosts::Regroup). Either nobody knows the iteration to count: it has
// left no trace, and all make their run again. Or some do, and have perhaps begun the
// next one: the others take over its outcome, and their run has ended. In both cases
// all go on from the z of the most advanced, as after a restart.
//
// Where gradients are averaged an iteration counts before anybody updates, and the
// model is what the replicas are, slots included. A host that takes over an iteration
// has not executed the rest of its run, which may have fetches: it makes the run once
// more, alone (Synchroniser::RunWithoutHosts), and then takes the others' model.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/coordination/host_values.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// No variable has such a name.
constexpr char kCounts[] = "_tensorbow/counts";

// What a host tells the others when they regroup.
enum Brought { kDecided, kFate, kLostBetween, kBehind, kLeaves, kProgram };
// What a host has decided that comes back.
constexpr int64_t kNothing = -1;

std::vector<int64_t> ToBring(const HostRounds::Standing& own, const Regrouping& how,
                             bool lost_between) {
  return {own.decided,  static_cast<int64_t>(own.fate),
          lost_between, how.behind,
          how.leaves,   how.program};
}

bool HasReturned(const std::vector<int64_t>& brought) {
  return brought[kDecided] == kNothing;
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

// The most advanced host of those that have the model, or -1: by what all have brought.
int MostAdvanced(const std::vector<int>& members,
                 const std::vector<std::vector<int64_t>>& all) {
  int leader = -1;
  for (int host : members) {
    if (all[host][kBehind] != 0 || HasReturned(all[host])) continue;
    if (leader < 0 || all[host][kDecided] > all[leader][kDecided]) leader = host;
  }
  return leader;
}

}  // namespace

absl::Status Trainer::LostBetween(const std::string& why) {
  Hosts* const hosts = rounds_->hosts();
  if (!hosts->elastic()) return absl::UnavailableError(why);
  // The others are told, who may be waiting for this one.
  std::vector<std::vector<int64_t>> all;
  hosts->Regroup(ToBring(rounds_->standing(), {}, /*lost_between=*/true),
                 /*takes_back=*/false, &all);
  return GiveUpBetween(hosts, why);
}

absl::StatusOr<bool> Trainer::TakeModelOf(int host, bool everything) {
  InheritedValues values;
  if (variables_ != nullptr && !averages_gradients()) {
    TF_ASSIGN_OR_RETURN(values, variables_->ModelStates());
  }
  if (variables_ != nullptr && (averages_gradients() || everything)) {
    TF_ASSIGN_OR_RETURN(const InheritedValues followed, variables_->FollowedStates());
    for (const auto& [name, value] : followed) values[name] = value;
  }
  tf::Tensor& counts = values[kCounts] = tf::Tensor(tf::DT_INT64, {4});
  counts.vec<int64_t>()(0) = iterations();
  counts.vec<int64_t>()(1) = learning_tasks();
  counts.vec<int64_t>()(2) = samples_seen();
  counts.vec<int64_t>()(3) = last_trained_ == nullptr ? 0 : last_trained_->iterations();
  if (!TakeValuesOf(rounds_->hosts(), host, &values).empty()) return false;
  inherited_ = std::move(values);
  return true;
}

absl::Status Trainer::Inherit() {
  const InheritedValues values = *std::move(inherited_);
  inherited_.reset();
  behind_hosts_ = true;
  const auto counts = values.at(kCounts).vec<int64_t>();
  rounds_->SetCounts({counts(0) - iterations_.load(),
                      counts(1) - learning_tasks_.load(),
                      counts(2) - samples_seen_.load()});
  if (variables_ == nullptr) return absl::OkStatus();
  if (averages_gradients()) return variables_->TakeOverStates(values);
  variables_->SetModelStates(values);
  return comes_back_ ? variables_->TakeOverStates(values) : absl::OkStatus();
}

absl::StatusOr<Regrouped> Trainer::RegroupHosts(Regrouping how) {
  Hosts* const hosts = rounds_->hosts();
  const std::string why = hosts->error();
  for (;; how.takes_back = false) {
    HostRounds::Standing own = rounds_->standing();
    if (comes_back_) own.decided = kNothing;
    std::vector<std::vector<int64_t>> all;
    const std::string error =
        hosts->Regroup(ToBring(own, how, /*lost_between=*/false), how.takes_back, &all);
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
          all[host][kLeaves] != 0 || all[host][kProgram] == how.program;
    }
    const int leader = MostAdvanced(members, all);
    if (leader < 0) {
      return GiveUp(hosts, absl::UnavailableError(absl::StrCat(
                               why,
                               ". No remaining host has the last update of the lost "
                               "hosts. Start all hosts again, from the last saved "
                               "state")));
    }
    TF_ASSIGN_OR_RETURN(const bool taken, TakeModelOf(leader, !back.empty()));
    if (!taken) continue;       // another host is lost
    rounds_->TakeStragglers();  // there are none now
    const auto counts = inherited_->at(kCounts).vec<int64_t>();
    found.set_iterations = counts(3);
    const std::string all_there = absl::StrJoin(members, ", ");
    const std::string returned = absl::StrJoin(back, ", ");
    if (back.empty()) {
      warn_(absl::StrCat("A host of the cluster is lost: ", why,
                         ". The other hosts continue from the last complete "
                         "iteration: ",
                         all_there));
    } else {
      warn_(absl::StrCat("A lost host has rejoined the cluster: ", returned,
                         ". Hosts that train from iteration ", counts(0),
                         " on: ", all_there));
    }
    found.decided = rounds_->Resume(
        {all[leader][kDecided], static_cast<HostRounds::Fate>(all[leader][kFate])});
    return found;
  }
}

absl::Status Trainer::CatchUpElastic() {
  if (!averages_gradients()) return absl::OkStatus();
  const bool behind = rounds_->behind();
  const HostRounds::Stragglers stragglers = rounds_->TakeStragglers();
  if (stragglers.hosts.empty() || stragglers.leader < 0) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const bool taken,
                      TakeModelOf(stragglers.leader, /*everything=*/false));
  if (!taken) TF_RETURN_IF_ERROR(RegroupHosts({behind}).status());
  return Inherit();
}

absl::Status Trainer::AgreeOn(int64_t what) {
  while (!rounds_->Agree(what)) {
    const bool lost = rounds_->Await() == HostRounds::Fate::kBroken;
    if (!lost || !has_elastic_hosts()) return HostsError();
    TF_ASSIGN_OR_RETURN(const Regrouped found, RegroupHosts({rounds_->behind()}));
    TF_RETURN_IF_ERROR(Inherit());
    if (!found.decided) continue;
    return rounds_->Await() == HostRounds::Fate::kCounts ? absl::OkStatus()
                                                         : HostsError();
  }
  return absl::OkStatus();
}

absl::StatusOr<ElasticFate> Trainer::AwaitElasticHosts(const TrainedSet* set,
                                                       bool may_rehearse) {
  ElasticFate found;
  found.fate = rounds_->Await();
  if (found.fate != HostRounds::Fate::kBroken) return found;
  TF_ASSIGN_OR_RETURN(const Regrouped regrouped, RegroupHosts({rounds_->behind()}));
  found.taken_over = regrouped.decided;
  found.again = !found.taken_over;
  found.fate = rounds_->Await();
  const bool counts = found.taken_over && found.fate == HostRounds::Fate::kCounts;
  if (counts && may_rehearse && averages_gradients()) {
    found.again = true;
    return found;
  }
  if (counts && set != nullptr) set->count()->fetch_add(1);
  TF_RETURN_IF_ERROR(Inherit());
  return found;
}

absl::Status Trainer::FollowElasticHosts(const Program& program, const LearningRun& run,
                                         bool* again) {
  if (inherited_.has_value()) TF_RETURN_IF_ERROR(Inherit());  // it was a rehearsal
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  const bool failed = run.failed() && !synchroniser->stopped_by_hosts();
  const bool has_data = !absl::IsOutOfRange(run.status());
  TF_ASSIGN_OR_RETURN(ElasticFate found,
                      AwaitElasticHosts(program.state.set.get(), has_data && !failed));
  if (has_data || failed) {
    *again = found.again && !failed;
    if (found.fate == HostRounds::Fate::kCounts) return absl::OkStatus();
    const absl::Status error = HostsError();
    TF_RETURN_IF_ERROR(CatchUpElastic());
    return failed ? absl::OkStatus() : error;  // the user is told why the run has
  }
  const bool reported = program.compiled()->host_gradients == nullptr;
  if (found.fate == HostRounds::Fate::kCounts && reported && !found.again &&
      !found.taken_over) {
    program.state.set->count()->fetch_add(1);  // an iteration of the others
  }
  while (found.fate == HostRounds::Fate::kCounts) {
    TF_RETURN_IF_ERROR(TakeBackHosts(program.state.set->program, /*leaves=*/false));
    found.fate =
        synchroniser->JoinWithoutTask(*program.state.set, HostRounds::Kind::kNoData);
    if (found.fate != HostRounds::Fate::kBroken) continue;
    TF_ASSIGN_OR_RETURN(found, AwaitElasticHosts(program.state.set.get(),
                                                 /*may_rehearse=*/false));
  }
  const absl::Status error = HostsError();
  TF_RETURN_IF_ERROR(CatchUpElastic());
  return found.fate == HostRounds::Fate::kNone ? absl::OkStatus() : error;
}

}  // namespace tensorbow
