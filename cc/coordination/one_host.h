// The coordinator of a session without other hosts: it does nothing.
#ifndef TENSORBOW_CC_COORDINATION_ONE_HOST_H_
#define TENSORBOW_CC_COORDINATION_ONE_HOST_H_

#include <map>
#include <string>

#include "cc/coordination/host_coordinator.h"

namespace tensorbow {

class OneHost : public HostCoordinator {
 public:
  HostRounds::Counts counts() override { return {}; }
  bool elastic() const override { return false; }
  bool must_agree_on_values() const override { return false; }
  absl::Status AgreeOnValues(HostValues*) override { return absl::OkStatus(); }
  absl::Status BeforeRun(const HostRun&) override { return absl::OkStatus(); }
  bool repeats_run() const override { return false; }
  absl::StatusOr<bool> AfterRun(const HostRun&) override { return false; }
  void AlgorithmChosen() override {}
  absl::StatusOr<bool> Merge(const HostRun&) override { return false; }
  absl::StatusOr<bool> FlushMegaBatch() override { return false; }
  absl::Status Enter(const char*, const std::string&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<int, int64_t>> Gather(int64_t value) override {
    return std::map<int, int64_t>{{0, value}};
  }
  absl::Status AgreeOnOutcome(const char*, const absl::Status& outcome) override {
    return outcome;
  }
  absl::Status BeginLoad() override { return absl::OkStatus(); }
  void CountersLoaded() override {}
  int place() const override { return 0; }
  void ExpectTraining() override {}
  bool TestAndSetLeaving() override { return false; }
  void Leave() override {}
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_ONE_HOST_H_
