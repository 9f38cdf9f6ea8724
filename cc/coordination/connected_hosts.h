// The common part of the coordinators with other hosts: agreeing, gathering, leaving.
// See host_coordinator.h for threads and ownership.
#ifndef TENSORBOW_CC_COORDINATION_CONNECTED_HOSTS_H_
#define TENSORBOW_CC_COORDINATION_CONNECTED_HOSTS_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cc/coordination/host_coordinator.h"

namespace tensorbow {

class ConnectedHosts : public HostCoordinator {
 public:
  ConnectedHosts(HostRounds* rounds, HostTraining* training)
      : rounds_(rounds), training_(training) {}

  HostRounds::Counts counts() override;
  bool elastic() const override { return false; }
  bool must_agree_on_values() const override { return !rounds_->hosts()->rejoins(); }
  absl::Status AgreeOnValues(HostValues* values) override;
  absl::Status BeforeRun(const HostRun&) override { return absl::OkStatus(); }
  bool repeats_run() const override { return false; }
  void AlgorithmChosen() override {}
  absl::StatusOr<bool> Merge(const HostRun&) override { return false; }
  absl::StatusOr<bool> FlushMegaBatch() override { return false; }
  absl::Status Enter(const char* call, const std::string& path) override;
  absl::StatusOr<std::map<int, int64_t>> Gather(int64_t value) override;
  absl::Status AgreeOnOutcome(const char* verb, const absl::Status& outcome) override;
  absl::Status BeginLoad() override { return absl::OkStatus(); }
  void CountersLoaded() override {}
  int place() const override;
  void ExpectTraining() override { expects_training_.store(true); }
  bool TestAndSetLeaving() override;
  void Leave() override;

 protected:
  using Result = HostRounds::Result;

  // Waits until hosts can do something together that is no iteration.
  virtual absl::Status Rest() { return absl::OkStatus(); }
  // Learns about the other hosts, once all have agreed.
  virtual absl::Status AwaitOthers() { return absl::OkStatus(); }
  // Agrees with the other hosts on a number, or fails.
  virtual absl::Status AgreeOn(int64_t number);
  // Returns the error of values that were lost between iterations.
  virtual absl::Status LostBetween(const std::string& why);
  // Gives the model to hosts that had no data for a while, after an iteration that does
  // not count. `written`: ids of the variables that the last run wrote.
  virtual absl::Status CatchUp(const std::vector<int>& written) = 0;
  // Takes part in an iteration of the others after the session has been closed. `set`:
  // the variables trained last, or null. After an error, this host takes part no more.
  virtual absl::StatusOr<Result> JoinAsLeft(const TrainedSet* set);

  // Warns if the last iteration is discarded and no run has reported it.
  void WarnOfDiscarded();
  // Returns the error of an iteration that does not count, and acknowledges it.
  absl::Status IterationError();
  // Remembers the run for iterations without one.
  void RememberRun(const HostRun& run);

  HostRounds* const rounds_;      // not owned
  HostTraining* const training_;  // not owned
  // The variables that the last run trained and wrote.
  std::unique_ptr<TrainedSet> last_set_;
  std::vector<int> last_written_;

 private:
  std::atomic<bool> expects_training_{false};
  std::atomic<bool> left_{false};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_CONNECTED_HOSTS_H_
