// Adaptive SGD over the hosts of a cluster: when a trainer meets the other hosts
// (cc/synchroniser/algorithms/host_merges.h), and what it does then.
//
// A run meets them when this host has trained on its share of the mega-batch. Whatever
// all hosts do together (variables that are written, states that are saved and loaded)
// comes after a rest: a host that is there first takes part in the merges of the others
// until they are there, too. So hosts may come to the same place of their program after
// different numbers of merges.
//
// Called with the trainer's mu_ held, which the methods assert: the analysis does not
// see that trainer_ is the caller. counts() is thread-safe. Owned by the trainer.
#ifndef TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_
#define TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/synchroniser/algorithms/host_merges.h"
#include "cc/trainer/learning_run.h"
#include "cc/trainer/trainer.h"

namespace tensorbow {

class Trainer::MergesOfHosts {
 public:
  explicit MergesOfHosts(Trainer* trainer) : trainer_(trainer) {}

  // Gets to know the learners of all hosts, unless it does. Called on all of them
  // together.
  absl::Status LearnHosts();
  // Tells the mega-batch, which is new, of them.
  void SetHosts();

  // This host has trained on its share, in a run that is under way.
  absl::Status Merge(const LearningRun& run);
  // Takes part in the merges of others until all hosts are at rest. `wants_merge`: what
  // is left is merged then; else this host goes on to do something with all others.
  absl::Status Rest(bool wants_merge);
  // After a run: what the hosts make of its end.
  absl::Status Follow(const LearningRun& run);
  // The session is closed: stays until it is on all hosts. False where the others do
  // not know of this one yet.
  bool Leave();

  // Tasks and rows of the other hosts, at the last meeting.
  HostRounds::Counts counts() const {
    return {/*iterations=*/0, tasks_of_others_.load(), rows_of_others_.load()};
  }
  // This host's have been set to those of a state, which all hosts know of.
  void ResumeCounts();

 private:
  // Whether other hosts wait for this one to merge with.
  bool knows_hosts() const { return !learners_.empty(); }
  // Meets the others and does what all have agreed to do; Unavailable if the cluster
  // has failed. `run`: which is under way, or null.
  absl::StatusOr<HostMerges::Outcome> Meet(HostMerges::Visit visit,
                                           const LearningRun* run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(trainer_->mu_);
  // What hosts go by to tell whether they train the same.
  int64_t Program() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(trainer_->mu_);
  // The error of a mega-batch that another host has had to abandon.
  absl::Status Abandoned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(trainer_->mu_);

  Trainer* const trainer_;     // not owned
  std::vector<int> learners_;  // by host; empty: not known
  bool stopped_run_ = false;   // a meeting has ended the run that is under way
  // What this host had counted at the last meeting, and what the others had.
  int64_t tasks_reported_ = 0;
  int64_t rows_reported_ = 0;
  std::atomic<int64_t> tasks_of_others_{0};
  std::atomic<int64_t> rows_of_others_{0};
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_MERGING_HOSTS_H_
