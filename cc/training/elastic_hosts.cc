// Training on when a host of a cluster has died or hangs: what Trainer does with those
// that are left.
//
// On elastic hosts a run ends when its iteration is known to count: all have reported,
// and all sums have arrived. If they do not, with a host that is lost, those that are
// left regroup (Hosts::Regroup). Either nobody knows the iteration to count: it has
// left no trace, and all make their run again. Or some do, and have perhaps begun the
// next one: the others take over its outcome, and their run has ended. In both cases
// all go on from the z of the most advanced, as after a restart.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cc/training/host_values.h"
#include "cc/training/trainer.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// No variable has such a name.
constexpr char kCounts[] = "_tensorbow/counts";

// What a host tells the others when they regroup.
enum Brought { kDecided, kFate, kLostBetween };

absl::Status GiveUp(Hosts* hosts, const std::string& why) {
  const absl::Status error = absl::UnavailableError(absl::StrCat(
      why,
      ". It was lost while variables or states were exchanged: start all hosts again, "
      "from what has been saved"));
  hosts->Fail(std::string(error.message()));
  return error;
}

}  // namespace

absl::Status Trainer::LostBetween(const std::string& why) {
  Hosts* const hosts = rounds_->hosts();
  if (!hosts->elastic()) return absl::UnavailableError(why);
  // The others are told, who may be waiting for this one.
  const HostRounds::Standing own = rounds_->standing();
  std::vector<std::vector<int64_t>> all;
  hosts->Regroup({own.decided, static_cast<int64_t>(own.fate), 1}, &all);
  return GiveUp(hosts, why);
}

absl::StatusOr<bool> Trainer::TakeModelOf(int host) {
  std::map<std::string, tf::Tensor> values;
  if (variables_ != nullptr) {
    TF_ASSIGN_OR_RETURN(values, variables_->ModelStates());
  }
  tf::Tensor& counts = values[kCounts] = tf::Tensor(tf::DT_INT64, {3});
  counts.vec<int64_t>()(0) = iterations();
  counts.vec<int64_t>()(1) = learning_tasks();
  counts.vec<int64_t>()(2) = samples_seen();
  if (!TakeValuesOf(rounds_->hosts(), host, &values).empty()) return false;
  const tf::Tensor taken = values[kCounts];
  rounds_->SetCounts({taken.vec<int64_t>()(0) - iterations_.load(),
                      taken.vec<int64_t>()(1) - learning_tasks_.load(),
                      taken.vec<int64_t>()(2) - samples_seen_.load()});
  if (variables_ != nullptr) variables_->SetModelStates(values);
  return true;
}

absl::StatusOr<bool> Trainer::RegroupHosts() {
  Hosts* const hosts = rounds_->hosts();
  const std::string why = hosts->error();
  while (true) {
    const HostRounds::Standing own = rounds_->standing();
    std::vector<std::vector<int64_t>> all;
    const std::string error =
        hosts->Regroup({own.decided, static_cast<int64_t>(own.fate), 0}, &all);
    if (!error.empty()) return absl::UnavailableError(error);
    const std::vector<int> members = hosts->members();
    int leader = members.front();
    for (int host : members) {
      if (all[host][kLostBetween] != 0) return GiveUp(hosts, why);
      if (all[host][kDecided] > all[leader][kDecided]) leader = host;
    }
    TF_ASSIGN_OR_RETURN(const bool taken, TakeModelOf(leader));
    if (!taken) continue;  // another host is lost
    behind_hosts_ = true;
    warn_(absl::StrCat("A host of the cluster is lost: ", why,
                       ". Those that are left go on from the last iteration that "
                       "counts: ",
                       absl::StrJoin(members, ", ")));
    return rounds_->Resume(
        {all[leader][kDecided], static_cast<HostRounds::Fate>(all[leader][kFate])});
  }
}

absl::Status Trainer::AgreeOn(int64_t what) {
  while (!rounds_->Agree(what)) {
    const bool lost = rounds_->Await() == HostRounds::Fate::kBroken;
    if (!lost || !has_elastic_hosts()) return HostsError();
    TF_ASSIGN_OR_RETURN(const bool decided, RegroupHosts());
    if (!decided) continue;
    return rounds_->Await() == HostRounds::Fate::kCounts ? absl::OkStatus()
                                                         : HostsError();
  }
  return absl::OkStatus();
}

absl::StatusOr<Trainer::ElasticFate> Trainer::AwaitElasticHosts(const TrainedSet* set) {
  ElasticFate found;
  found.fate = rounds_->Await();
  if (found.fate != HostRounds::Fate::kBroken) return found;
  TF_ASSIGN_OR_RETURN(found.taken_over, RegroupHosts());
  found.again = !found.taken_over;
  found.fate = rounds_->Await();
  if (found.taken_over && found.fate == HostRounds::Fate::kCounts && set != nullptr) {
    set->count()->fetch_add(1);
  }
  return found;
}

absl::Status Trainer::FollowElasticHosts(const LearningProgram& program,
                                         const LearningRun& run, bool* again) {
  TF_ASSIGN_OR_RETURN(ElasticFate found, AwaitElasticHosts(program.set.get()));
  if (run.failed()) {
    HostsError().IgnoreError();  // the user is told why the run has failed
    return absl::OkStatus();
  }
  if (!absl::IsOutOfRange(run.status())) {
    *again = found.again;
    return found.fate == HostRounds::Fate::kCounts ? absl::OkStatus() : HostsError();
  }
  if (found.fate == HostRounds::Fate::kCounts && !found.again && !found.taken_over) {
    program.set->count()->fetch_add(1);  // the run's last iteration, of the others
  }
  while (found.fate == HostRounds::Fate::kCounts) {
    found.fate =
        synchronisation_->synchroniser->Attend(*program.set, HostRounds::Kind::kNoData);
    if (found.fate != HostRounds::Fate::kBroken) continue;
    TF_ASSIGN_OR_RETURN(found, AwaitElasticHosts(program.set.get()));
  }
  const absl::Status error = HostsError();
  return found.fate == HostRounds::Fate::kNone ? absl::OkStatus() : error;
}

}  // namespace tensorbow
