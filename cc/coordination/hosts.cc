// Training together with other hosts: what Trainer does beside its learning runs.
#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "cc/checkpoint/saved_state.h"
#include "cc/checkpoint/state_file.h"
#include "cc/coordination/host_values.h"
#include "cc/coordination/merging_hosts.h"
#include "cc/trainer/trainer.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::Status Trainer::OnOneHostOnly(const char* what) const {
  if (rounds_ == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(what, " is implemented for one host, and this session trains with ",
                   options_.num_hosts(), "."));
}

HostRounds::Counts Trainer::CountsOfHosts() const {
  if (rounds_ == nullptr) return {};
  if (merges_ != nullptr) return merges_->counts();
  rounds_->Await();
  return rounds_->counts();
}

bool Trainer::averages_gradients() const {
  return synchronisation_ != nullptr &&
         synchronisation_->synchroniser->traits().averages_gradients();
}

std::string Trainer::OptionsForHosts() const {
  std::string text = absl::StrCat(
      merges_ != nullptr ? 0 : num_learners(), " ", synchronisation_->choice.name(),
      " ", options_.alpha, " ", options_.sync_period, " ", options_.ema_decay, " ",
      options_.batch_size, " ", options_.host_period, " ",
      static_cast<int>(options_.centre), " ", synchronisation_->choice.momentum, " ",
      options_.host_chunks.searched ? -1 : options_.host_chunks.gradients, "\n");
  if (merges_ == nullptr) return text;
  const AdaptiveOptions& o = options_.adaptive;
  absl::StrAppend(&text, o.mega_batch, " ", o.b_max, " ", o.b_min, " ", o.beta, " ",
                  o.perturbation, " ", o.threshold, " ", o.momentum, " ", o.scales, " ",
                  o.normalises, " ", static_cast<int>(options_.scheduling), "\n");
  return text;
}

absl::Status Trainer::AgreeWithHosts(std::map<std::string, tf::Tensor>* values) {
  if (rounds_->Await() != HostRounds::Fate::kCounts) return HostsError();
  if (merges_ != nullptr) TF_RETURN_IF_ERROR(merges_->Rest(/*wants_merge=*/false));
  std::string text = OptionsForHosts();
  for (const auto& [name, value] : *values) {
    absl::StrAppend(&text, name, " ", tf::DataTypeString(value.dtype()), " ",
                    value.shape().DebugString(), "\n");
  }
  TF_RETURN_IF_ERROR(AgreeOn(static_cast<int64_t>(tf::Hash64(text))));
  if (merges_ != nullptr) TF_RETURN_IF_ERROR(merges_->LearnHosts());
  Hosts* const hosts = rounds_->hosts();
  const std::string error = TakeValuesOf(hosts, hosts->members().front(), values);
  return error.empty() ? absl::OkStatus() : LostBetween(error);
}

absl::Status Trainer::MeetHosts(const char* call, const std::string& path) {
  if (rounds_->hosts()->returns()) {
    return absl::FailedPreconditionError(absl::StrCat(
        call,
        ": this host was restarted, and its first learning run takes over the model of "
        "the other hosts. Until then, run the initialisers only"));
  }
  if (rounds_->Await() != HostRounds::Fate::kCounts) return HostsError();
  if (merges_ != nullptr) TF_RETURN_IF_ERROR(merges_->Rest(/*wants_merge=*/false));
  const std::string text = absl::StrCat(call, " ", path);
  return AgreeOn(static_cast<int64_t>(tf::Hash64(text)));
}

absl::StatusOr<std::map<int, int64_t>> Trainer::GatherFromHosts(int64_t brought) {
  Hosts* const hosts = rounds_->hosts();
  const auto sum = hosts->NewSum(Hosts::Type::kInt64, hosts->size());
  sum->as<int64_t>()[hosts->rank()] = brought;
  sum->Start();
  const std::string error = sum->Await();
  if (!error.empty()) return LostBetween(error);
  std::map<int, int64_t> all;
  for (int host : hosts->members()) all[host] = sum->as<int64_t>()[host];
  return all;
}

absl::Status Trainer::AgreeOnOutcome(const char* what, const absl::Status& outcome) {
  TF_ASSIGN_OR_RETURN(const auto failed, GatherFromHosts(outcome.ok() ? 0 : 1));
  const auto first = std::find_if(failed.begin(), failed.end(),
                                  [](const auto& host) { return host.second == 1; });
  if (!outcome.ok() || first == failed.end()) return outcome;
  return absl::AbortedError(absl::StrCat("Host ", first->first, " cannot ", what,
                                         " its part of the state, so no host ", what,
                                         "s one. See the error on that host"));
}

absl::Status Trainer::SavePart(const SavedState& state, const std::string& path) {
  const absl::StatusOr<int64_t> own = StateReader::Current(PathOfHost(path));
  TF_ASSIGN_OR_RETURN(const auto saves, GatherFromHosts(own.value_or(0)));
  int64_t last = 0;
  for (const auto& [host, save] : saves) last = std::max(last, save);
  const auto agree =
      [this](const absl::Status& written) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return AgreeOnOutcome("save", written);  // the caller holds mu_
      };
  return WritePart(state, PathOfHost(path), last, agree);
}

absl::Status Trainer::AgreeOnSave(const std::string& path) {
  TF_RETURN_IF_ERROR(MeetHosts("load_state", path));
  const absl::StatusOr<int64_t> own = StateReader::Current(PathOfHost(path));
  TF_ASSIGN_OR_RETURN(const auto saves, GatherFromHosts(own.value_or(0)));
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto least = std::min_element(saves.begin(), saves.end(), less);
  const int64_t common = least->second;
  const int64_t last = std::max_element(saves.begin(), saves.end(), less)->second;
  absl::Status found = own.status();
  if (found.ok() && common == 0 && last > 0) {
    found = absl::FailedPreconditionError(absl::StrCat(
        "Host ", least->first, " has no part of the saved state '", path,
        "', but other hosts have theirs. Give every host the files that it saved"));
  } else if (found.ok() && common > 0) {
    found = StateReader::GoBackTo(PathOfHost(path), common);
  }
  return AgreeOnOutcome("find", found);
}

std::string Trainer::PathOfHost(const std::string& path) const {
  if (rounds_ == nullptr) return path;
  // Of those that are left.
  const std::vector<int> members = rounds_->hosts()->members();
  const auto own = std::find(members.begin(), members.end(), rounds_->hosts()->rank());
  return absl::StrCat(path, "-host", own - members.begin());
}

absl::Status Trainer::CatchUp(const std::vector<int>& ids) {
  const HostRounds::Fate fate = rounds_->Await();
  if (fate != HostRounds::Fate::kNone && fate != HostRounds::Fate::kDiscarded) {
    return absl::OkStatus();
  }
  if (has_elastic_hosts()) return CatchUpElastic();
  const HostRounds::Stragglers stragglers = rounds_->TakeStragglers();
  if (stragglers.hosts.empty() || stragglers.leader < 0) return absl::OkStatus();
  if (!averages_gradients()) return absl::OkStatus();
  std::map<std::string, tf::Tensor> values;
  for (int id : ids) {
    if (!variables_->follows_others(id)) continue;
    TF_ASSIGN_OR_RETURN(values[variables_->node(id).name()],
                        variables_->ReplicaValue(id, /*learner=*/0));
  }
  Hosts* const hosts = rounds_->hosts();
  const std::string error = TakeValuesOf(hosts, stragglers.leader, &values);
  if (!error.empty()) return absl::UnavailableError(error);
  if (!std::count(stragglers.hosts.begin(), stragglers.hosts.end(), hosts->rank())) {
    return absl::OkStatus();
  }
  for (int id : ids) {
    const auto value = values.find(variables_->node(id).name());
    if (value == values.end()) continue;
    TF_RETURN_IF_ERROR(variables_->TakeOver(id, value->second));
  }
  return absl::OkStatus();
}

absl::Status Trainer::HostsError() {
  behind_hosts_ = true;
  const HostRounds::Fate fate = rounds_->Await();
  const std::string why = rounds_->why();
  rounds_->AcknowledgeFailure();
  if (fate == HostRounds::Fate::kBroken) return absl::UnavailableError(why);
  return absl::AbortedError(why);
}

absl::Status Trainer::FollowHosts(const Program& program, const LearningRun& run,
                                  bool* again) {
  if (rounds_ == nullptr) return absl::OkStatus();
  if (merges_ != nullptr) return merges_->Follow(run);
  Synchroniser* const synchroniser = synchronisation_->synchroniser.get();
  last_trained_ = std::make_unique<TrainedSet>(*program.state.set);
  last_written_ = program.state.written;
  if (has_elastic_hosts()) return FollowElasticHosts(program, run, again);
  if (synchroniser->stopped_by_hosts()) {
    TF_RETURN_IF_ERROR(CatchUp(program.state.written));
    return HostsError();
  }
  if (run.failed()) {
    TF_RETURN_IF_ERROR(CatchUp(program.state.written));
    HostsError().IgnoreError();  // the user is told why the run has failed
    return absl::OkStatus();
  }
  if (!absl::IsOutOfRange(run.status())) return absl::OkStatus();
  HostRounds::Fate fate = rounds_->Await();
  const bool reported = program.compiled()->host_gradients == nullptr;
  if (fate == HostRounds::Fate::kCounts && reported) {
    program.state.set->count()->fetch_add(1);  // an iteration of the others
  }
  while (fate == HostRounds::Fate::kCounts) {
    fate = synchroniser->JoinWithoutTask(*program.state.set, HostRounds::Kind::kNoData);
  }
  TF_RETURN_IF_ERROR(CatchUp(program.state.written));
  const absl::Status error = HostsError();
  return fate == HostRounds::Fate::kNone ? absl::OkStatus() : error;
}

void Trainer::Leave() {
  if (rounds_ == nullptr || left_.exchange(true)) return;
  if (!trains_.load() && !rounds_->begun()) return;  // nobody counts on this session
  turns_.Take();
  const auto end_turn = absl::MakeCleanup([this] { turns_.End(); });
  absl::MutexLock lock(&mu_);
  if (rounds_->HasUnreportedFailure()) {
    warn_(absl::StrCat(
        "The last iteration before the session was closed is discarded: ",
        rounds_->why(), ". Variables have the values of the iteration before it."));
  }
  HostRounds::Fate fate = rounds_->Await();
  if (merges_ != nullptr && merges_->Leave()) return;
  while (fate == HostRounds::Fate::kCounts || fate == HostRounds::Fate::kDiscarded) {
    rounds_->AcknowledgeFailure();
    if (last_trained_ != nullptr) {
      if (!TakeBackHosts(last_trained_->program, /*leaves=*/true).ok()) return;
      fate = synchronisation_->synchroniser->JoinWithoutTask(*last_trained_,
                                                             HostRounds::Kind::kLeft);
    } else {
      rounds_->Send({HostRounds::Kind::kLeft}, nullptr);
      fate = rounds_->Await();
    }
    if (fate == HostRounds::Fate::kBroken && has_elastic_hosts()) {
      const absl::StatusOr<ElasticFate> found =
          AwaitElasticHosts(last_trained_.get(), /*may_rehearse=*/false);
      if (!found.ok()) return;
      fate = found->fate;
    }
    if (last_trained_ != nullptr) CatchUp(last_written_).IgnoreError();  // others may
  }
}

}  // namespace tensorbow
