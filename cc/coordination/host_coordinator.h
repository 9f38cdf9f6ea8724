// Coordinates the training of one host with the other hosts of a cluster, between the
// steps of a learning run:
//
//   AgreeOnValues    all hosts begin with the same variables
//   BeforeRun        lost hosts rejoin
//   Merge            models are merged after a mega-batch
//   AfterRun         the iteration counts on all hosts or on none
//   Leave            the session is closed
//
// Four classes implement it: OneHost, LockstepHosts, ElasticHosts and MergingHosts. Not
// thread-safe, except for counts(): the trainer calls it with its lock held.
#ifndef TENSORBOW_CC_COORDINATION_HOST_COORDINATOR_H_
#define TENSORBOW_CC_COORDINATION_HOST_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/coordination/host_training.h"
#include "cc/synchroniser/hosts/host_rounds.h"
#include "cc/synchroniser/trained_set.h"

namespace tensorbow {

// A learning run of this host.
struct HostRun {
  TrainedSet* set = nullptr;                  // the variables it trains
  const std::vector<int>* written = nullptr;  // ids of the variables that it writes
  bool knows_rows = true;                     // before it is executed
  bool has_data = true;
  // --- After the run.
  bool failed = false;
  bool stopped_by_hosts = false;
  // Work that the counters do not have yet.
  int64_t pending_tasks = 0;
  int64_t pending_rows = 0;
};

class HostCoordinator {
 public:
  virtual ~HostCoordinator() = default;

  // Returns the other hosts' share of the counters, after the last iteration has ended
  // on all of them. Thread-safe.
  virtual HostRounds::Counts counts() = 0;
  // Returns whether the remaining hosts go on if one is lost.
  virtual bool elastic() const = 0;

  // Returns whether hosts have to agree on the values that learners begin with.
  virtual bool must_agree_on_values() const = 0;
  // Overwrites the values, by variable, with those of the first host.
  virtual absl::Status AgreeOnValues(HostValues* values) = 0;
  // Prepares a run: lost hosts rejoin first.
  virtual absl::Status BeforeRun(const HostRun& run) = 0;
  // Returns whether the next run is repeated for its fetches alone: other hosts have
  // made its updates.
  virtual bool repeats_run() const = 0;
  // Concludes a run, and takes part in the iterations of other hosts if it had no data.
  // Returns whether the run has left no trace and must be made again.
  virtual absl::StatusOr<bool> AfterRun(const HostRun& run) = 0;

  // Called after an algorithm has been chosen.
  virtual void AlgorithmChosen() = 0;
  // Merges the models of all hosts after a mega-batch. Returns false if this host
  // merges by itself.
  virtual absl::StatusOr<bool> Merge(const HostRun& run) = 0;
  // Merges what is left of a mega-batch. Returns as Merge() does.
  virtual absl::StatusOr<bool> FlushMegaBatch() = 0;

  // Waits until all hosts make the same call with the same path.
  virtual absl::Status Enter(const char* call, const std::string& path) = 0;
  // Returns the values of all hosts, by rank.
  virtual absl::StatusOr<std::map<int, int64_t>> Gather(int64_t value) = 0;
  // Returns this host's outcome, or an error if another host has one.
  virtual absl::Status AgreeOnOutcome(const char* verb,
                                      const absl::Status& outcome) = 0;
  // Prepares for a loaded state, whose algorithm may be chosen next.
  virtual absl::Status BeginLoad() = 0;
  // Called when the counters have been set to those of a loaded state.
  virtual void CountersLoaded() = 0;
  // Returns this host's place among those that are left.
  virtual int place() const = 0;

  // Called when a learning run is compiled: the other hosts will wait for this one.
  virtual void ExpectTraining() = 0;
  // Returns true once, if other hosts count on this session.
  virtual bool TestAndSetLeaving() = 0;
  // Takes part in the iterations of the other hosts until they have left, too.
  virtual void Leave() = 0;
};

// Returns the coordinator for the hosts of `rounds`; null: for one host. Nothing is
// owned. `merges`: the algorithm merges models.
std::unique_ptr<HostCoordinator> NewHostCoordinator(HostRounds* rounds, bool merges,
                                                    HostTraining* training);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_HOST_COORDINATOR_H_
