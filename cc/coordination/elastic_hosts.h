// Coordinates hosts that go on without those that die or hang, and with those that are
// started again.
//
// A run ends when its iteration is known to count: all hosts have reported, and all
// sums have arrived. If a host is lost, the others regroup (Hosts::Regroup). If no host
// knows the iteration to count, it has left no trace, and all make their run again. If
// some do, the others take over its outcome, and their run has ended. In both cases all
// go on from the model of the most advanced host.
//
// If gradients are averaged, an iteration counts before anybody updates, and the model
// is the replicas, slots included. A host that takes over an iteration has not executed
// the rest of its run, which may have fetches: it repeats the run alone and then takes
// the others' model.
//
// A host that is started again rejoins before an iteration, the same on all hosts. It
// gets the model, the counters and all else that hosts share.
#ifndef TENSORBOW_CC_COORDINATION_ELASTIC_HOSTS_H_
#define TENSORBOW_CC_COORDINATION_ELASTIC_HOSTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cc/coordination/connected_hosts.h"

namespace tensorbow {

class ElasticHosts : public ConnectedHosts {
 public:
  using ConnectedHosts::ConnectedHosts;

  bool elastic() const override { return true; }
  absl::Status BeforeRun(const HostRun& run) override;
  bool repeats_run() const override { return adopted_.has_value(); }
  absl::StatusOr<bool> AfterRun(const HostRun& run) override;

 private:
  // The outcome of an iteration.
  struct Outcome {
    Result result = Result::kCounts;
    bool again = false;       // the run must be made again
    bool taken_over = false;  // other hosts have known the outcome
  };
  // The reason for regrouping, and this host's situation.
  struct Reason {
    bool behind = false;   // it lacks updates that count
    bool rejoins = false;  // no host is lost, one rejoins
    bool leaves = false;   // this host has closed its session
    int64_t program = 0;   // it trains next
  };
  // The result of regrouping.
  struct Regrouped {
    bool decided = false;        // the round under way is; else it must be made again
    bool all_leave = false;      // the hosts that have trained
    bool same_program = true;    // all train the same next
    int64_t set_iterations = 0;  // of the set that they have trained last
  };

  absl::Status AgreeOn(int64_t number) override;
  absl::Status LostBetween(const std::string& why) override;
  absl::Status CatchUp(const std::vector<int>& written) override;
  absl::StatusOr<Result> JoinAsLeft(const TrainedSet* set) override;

  // Returns the outcome of the last iteration, which the remaining hosts decide.
  // `set`: the variables it trained, or null. `may_repeat`: the run can be repeated for
  // its fetches.
  absl::StatusOr<Outcome> AwaitOutcome(const TrainedSet* set, bool may_repeat);
  absl::StatusOr<bool> AfterRunWithoutData(const HostRun& run, Outcome found);
  // Goes on with the hosts there are. Fetches the model of the most advanced one.
  absl::StatusOr<Regrouped> Regroup(Reason reason);
  // Fetches the model and the counters of a host. Returns false if they are lost.
  absl::StatusOr<bool> FetchModelOf(int host, bool everything);
  // Adopts the model and the counters that have been fetched.
  absl::Status Adopt();
  // Gives the model to hosts that lack updates.
  absl::Status CatchUpByModel();
  // Lets lost hosts rejoin, if all have seen them.
  absl::Status LetHostsRejoin(int64_t program, bool leaves);
  absl::Status Rejoin(const HostRun& run);

  std::optional<HostValues> adopted_;  // fetched, not yet applied
  bool rejoining_ = false;             // it has nothing of the others yet
  int64_t described_ = 0;              // variables, when they were described last
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_ELASTIC_HOSTS_H_
