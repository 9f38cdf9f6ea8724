#include "cc/coordination/lockstep_hosts.h"

#include <algorithm>
#include <string>

#include "cc/coordination/host_values.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

absl::StatusOr<bool> LockstepHosts::AfterRun(const HostRun& run) {
  RememberRun(run);
  if (run.stopped_by_hosts) {
    TF_RETURN_IF_ERROR(CatchUp(*run.written));
    return IterationError();
  }
  if (run.failed) {
    TF_RETURN_IF_ERROR(CatchUp(*run.written));
    IterationError().IgnoreError();  // the user gets the run's own error
    return false;
  }
  if (run.has_data) return false;
  Result result = rounds_->Await();
  if (result == Result::kCounts && run.set->host_gradients == nullptr) {
    run.set->count()->fetch_add(1);  // an iteration of the others
  }
  while (result == Result::kCounts) {
    result = training_->JoinWithoutTask(*run.set, HostRounds::Kind::kNoData);
  }
  TF_RETURN_IF_ERROR(CatchUp(*run.written));
  const absl::Status error = IterationError();
  if (result != Result::kNone) TF_RETURN_IF_ERROR(error);
  return false;
}

absl::Status LockstepHosts::CatchUp(const std::vector<int>& written) {
  const Result result = rounds_->Await();
  if (result != Result::kNone && result != Result::kDiscarded) return absl::OkStatus();
  const HostRounds::Stragglers stragglers = rounds_->TakeStragglers();
  if (stragglers.hosts.empty() || stragglers.leader < 0) return absl::OkStatus();
  if (!training_->averages_gradients()) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(HostValues values, training_->Values(written));
  Hosts* const hosts = rounds_->hosts();
  const std::string error = TakeValuesOf(hosts, stragglers.leader, &values);
  if (!error.empty()) return absl::UnavailableError(error);
  const bool lags =
      std::count(stragglers.hosts.begin(), stragglers.hosts.end(), hosts->rank()) > 0;
  return lags ? training_->SetValues(written, values) : absl::OkStatus();
}

}  // namespace tensorbow
