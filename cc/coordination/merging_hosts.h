// Coordinates hosts that merge their models after every mega-batch (Adaptive SGD over a
// cluster; cc/synchroniser/algorithms/host_merges.h).
//
// A run joins the other hosts when this host has trained its share of the mega-batch.
// Before all hosts do something else together (variables are written, states are saved
// and loaded) they rest: a host that is there first takes part in the merges of the
// others. So hosts may come to the same place of their program after different numbers
// of merges.
#ifndef TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_
#define TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/coordination/connected_hosts.h"

namespace tensorbow {

class MergingHosts : public ConnectedHosts {
 public:
  using ConnectedHosts::ConnectedHosts;

  // Returns the tasks and rows of the other hosts, at the last round.
  HostRounds::Counts counts() override {
    return {/*iterations=*/0, tasks_of_others_.load(), rows_of_others_.load()};
  }
  absl::StatusOr<bool> AfterRun(const HostRun& run) override;
  // Tells the mega-batch, which is new, the learners of all hosts.
  void AlgorithmChosen() override;
  absl::StatusOr<bool> Merge(const HostRun& run) override;
  absl::StatusOr<bool> FlushMegaBatch() override;
  absl::Status BeginLoad() override { return AwaitOthers(); }
  void CountersLoaded() override;
  void Leave() override;

 private:
  absl::Status Rest() override { return RestUntil(/*wants_merge=*/false); }
  absl::Status AwaitOthers() override;
  absl::Status CatchUp(const std::vector<int>&) override { return absl::OkStatus(); }

  // Returns whether other hosts wait for this one to merge with.
  bool knows_hosts() const { return !learners_.empty(); }
  // Takes part in the merges of others until all hosts rest. `wants_merge`: merges what
  // is left then; else this host goes on to do something with all others.
  absl::Status RestUntil(bool wants_merge);
  // Visits the other hosts and does what all have agreed on. `run`: the run under way,
  // or null. Unavailable if the cluster has failed.
  absl::StatusOr<HostMerges::Outcome> Visit(HostMerges::Visit visit,
                                            const HostRun* run);
  // Returns the error of a mega-batch that another host has abandoned.
  absl::Status Abandoned();

  std::vector<int> learners_;  // by host; empty: not known
  bool stopped_run_ = false;   // a visit has ended the run that is under way
  // This host's counters at the last visit, and those of the others.
  int64_t tasks_reported_ = 0;
  int64_t rows_reported_ = 0;
  std::atomic<int64_t> tasks_of_others_{0};
  std::atomic<int64_t> rows_of_others_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_
