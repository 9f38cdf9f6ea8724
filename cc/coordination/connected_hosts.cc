#include "cc/coordination/connected_hosts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cc/coordination/host_values.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

HostRounds::Counts ConnectedHosts::counts() {
  rounds_->Await();
  return rounds_->counts();
}

absl::Status ConnectedHosts::AgreeOnValues(HostValues* values) {
  if (rounds_->Await() != Result::kCounts) return IterationError();
  TF_RETURN_IF_ERROR(Rest());
  std::string text = training_->DescribeOptions();
  for (const auto& [name, value] : *values) {
    absl::StrAppend(&text, name, " ", tf::DataTypeString(value.dtype()), " ",
                    value.shape().DebugString(), "\n");
  }
  TF_RETURN_IF_ERROR(AgreeOn(static_cast<int64_t>(tf::Hash64(text))));
  TF_RETURN_IF_ERROR(AwaitOthers());
  Hosts* const hosts = rounds_->hosts();
  const std::string error = TakeValuesOf(hosts, hosts->members().front(), values);
  return error.empty() ? absl::OkStatus() : LostBetween(error);
}

absl::Status ConnectedHosts::Enter(const char* call, const std::string& path) {
  if (rounds_->hosts()->rejoins()) {
    return absl::FailedPreconditionError(absl::StrCat(
        call,
        ": this host was restarted, and its first learning run takes over the model of "
        "the other hosts. Until then, run the initialisers only"));
  }
  if (rounds_->Await() != Result::kCounts) return IterationError();
  TF_RETURN_IF_ERROR(Rest());
  const std::string text = absl::StrCat(call, " ", path);
  return AgreeOn(static_cast<int64_t>(tf::Hash64(text)));
}

absl::StatusOr<std::map<int, int64_t>> ConnectedHosts::Gather(int64_t value) {
  Hosts* const hosts = rounds_->hosts();
  const auto sum = hosts->NewSum(Hosts::Type::kInt64, hosts->size());
  sum->as<int64_t>()[hosts->rank()] = value;
  sum->Start();
  const std::string error = sum->Await();
  if (!error.empty()) return LostBetween(error);
  std::map<int, int64_t> all;
  for (int host : hosts->members()) all[host] = sum->as<int64_t>()[host];
  return all;
}

absl::Status ConnectedHosts::AgreeOnOutcome(const char* verb,
                                            const absl::Status& outcome) {
  TF_ASSIGN_OR_RETURN(const auto failed, Gather(outcome.ok() ? 0 : 1));
  const auto first = std::find_if(failed.begin(), failed.end(),
                                  [](const auto& host) { return host.second == 1; });
  if (!outcome.ok() || first == failed.end()) return outcome;
  return absl::AbortedError(absl::StrCat("Host ", first->first, " cannot ", verb,
                                         " its part of the state, so no host ", verb,
                                         "s one. See the error on that host"));
}

int ConnectedHosts::place() const {
  const std::vector<int> members = rounds_->hosts()->members();
  const auto own = std::find(members.begin(), members.end(), rounds_->hosts()->rank());
  return static_cast<int>(own - members.begin());
}

absl::Status ConnectedHosts::AgreeOn(int64_t number) {
  if (rounds_->Agree(number)) return absl::OkStatus();
  rounds_->Await();
  return IterationError();
}

absl::Status ConnectedHosts::LostBetween(const std::string& why) {
  return absl::UnavailableError(why);
}

absl::Status ConnectedHosts::IterationError() {
  training_->RequestRestart();
  const Result result = rounds_->Await();
  const std::string why = rounds_->why();
  rounds_->AcknowledgeFailure();
  if (result == Result::kBroken) return absl::UnavailableError(why);
  return absl::AbortedError(why);
}

void ConnectedHosts::RememberRun(const HostRun& run) {
  last_set_ = std::make_unique<TrainedSet>(*run.set);
  last_written_ = *run.written;
}

bool ConnectedHosts::TestAndSetLeaving() {
  if (left_.exchange(true)) return false;
  return expects_training_.load() || rounds_->begun();
}

void ConnectedHosts::WarnOfDiscarded() {
  if (!rounds_->HasUnreportedFailure()) return;
  training_->Warn(absl::StrCat(
      "The last iteration before the session was closed is discarded: ", rounds_->why(),
      ". Variables have the values of the iteration before it."));
}

absl::StatusOr<HostRounds::Result> ConnectedHosts::JoinAsLeft(const TrainedSet* set) {
  if (set != nullptr) {
    return training_->JoinWithoutTask(*set, HostRounds::Kind::kLeft);
  }
  rounds_->Send({HostRounds::Kind::kLeft}, nullptr);
  return rounds_->Await();
}

void ConnectedHosts::Leave() {
  WarnOfDiscarded();
  Result result = rounds_->Await();
  while (result == Result::kCounts || result == Result::kDiscarded) {
    rounds_->AcknowledgeFailure();
    const absl::StatusOr<Result> joined = JoinAsLeft(last_set_.get());
    if (!joined.ok()) return;
    result = *joined;
    // Other hosts may lack what this one has learned.
    if (last_set_ != nullptr) CatchUp(last_written_).IgnoreError();
  }
}

}  // namespace tensorbow
