// The rounds of reports between hosts: an iteration counts on all of them or on none.
// After every iteration each host reports on its part, in a small sum beside those of
// the values (host_average.h). It awaits the reports of all hosts before the next
// iteration updates anything.
//
//   all have trained, have no data or have left,
//     and at least one has trained                  the iteration counts
//   nobody has trained                              there is none, without an error
//   a task of some host has failed                  it is discarded
//   hosts do different things                       the cluster fails
//
// Hosts that average gradients cannot undo an update. They report before it (Vote), and
// the iteration counts once all gradients have arrived. If a host does not know its
// rows yet, a second report counts them.
//
// A host states its variables before its first iteration, and after each write of them
// (Agree). They must be the same everywhere.
//
// Elastic hosts (Hosts::elastic()) may go on after reports are lost with a host. They
// agree on the number of decided rounds, and a host that has missed the last one adopts
// its result (Resume).
//
// Await() may be called concurrently, everything else between two iterations.
#ifndef TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_ROUNDS_H_
#define TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_ROUNDS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/support/mutex.h"
#include "cc/synchroniser/hosts/hosts.h"

namespace tensorbow {

class HostRounds {
 public:
  enum class Kind { kTrained, kFailed, kNoData, kLeft, kAgrees };
  struct Report {
    Kind kind;
    int64_t program = 0;  // that was trained, or the initial state (kAgrees)
    int64_t tasks = 0;    // counted if the iteration counts
    int64_t rows = 0;     // kUnknown in a vote without a number
  };
  static constexpr int64_t kUnknown = -1;
  // The rows of a failed vote of a host that lacks the others' last update.
  static constexpr int64_t kBehind = -2;
  enum class Result { kCounts, kNone, kDiscarded, kBroken };
  // The other hosts' share of the counters.
  struct Counts {
    int64_t iterations = 0;
    int64_t tasks = 0;
    int64_t rows = 0;
  };

  explicit HostRounds(Hosts* hosts);  // not owned

  Hosts* hosts() const { return hosts_; }
  // Returns whether a report has been made. Before the first one, other hosts may make
  // other sums.
  bool begun() const TENSORBOW_EXCLUDES(mu_);

  // Reports on an iteration. `undo`: undoes it on this host if it does not count.
  // `arrived`, if any: waits for its other values and returns whether they have
  // arrived; without them it does not count. REQUIRES: the last result has been
  // awaited.
  void Send(const Report& report, std::function<void()> undo,
            std::function<bool()> arrived = nullptr) TENSORBOW_EXCLUDES(mu_);
  // Reports on this host's part of the iteration under way; the result decides whether
  // it goes on. `arrived`: as for Send().
  void Vote(const Report& report, std::function<bool()> arrived)
      TENSORBOW_EXCLUDES(mu_);
  // Returns, after Await() of a vote, whether it has been counted: no report follows.
  bool counted() const TENSORBOW_EXCLUDES(mu_);
  // Returns whether the last iteration is known to count.
  bool clear() const { return clear_.load(std::memory_order_acquire); }
  // Waits for the result of the last iteration. It stays until the next report or
  // AcknowledgeFailure().
  Result Await() TENSORBOW_EXCLUDES(mu_);
  // The reason why it does not count, for users; empty if it does.
  std::string why() const TENSORBOW_EXCLUDES(mu_);
  // Fails the cluster: other values that hosts exchange have not arrived.
  Result Break() TENSORBOW_EXCLUDES(mu_);
  // Returns whether a host will rejoin before the next iteration; equal on all hosts.
  bool admits() const TENSORBOW_EXCLUDES(mu_);
  // This host's progress, which it reports when hosts regroup.
  struct Progress {
    int64_t decided = 0;              // rounds
    Result result = Result::kCounts;  // of the last of them
  };
  Progress progress() const TENSORBOW_EXCLUDES(mu_);
  // Continues after hosts have regrouped. `last`: the most advanced progress. Returns
  // whether it decides the round that was lost here; else that has to be made again.
  bool Resume(const Progress& last) TENSORBOW_EXCLUDES(mu_);
  // Sets the other hosts' share of the counters.
  void SetCounts(const Counts& counts) TENSORBOW_EXCLUDES(mu_);
  // Adds this host's last iteration to the counters. REQUIRES: nobody else here has.
  void CountOwn() TENSORBOW_EXCLUDES(mu_);
  // Marks the failure as reported to the user: the next iteration may start.
  void AcknowledgeFailure() TENSORBOW_EXCLUDES(mu_);
  // Waits; returns whether the last iteration does not count and the user does not
  // know.
  bool HasUnreportedFailure() TENSORBOW_EXCLUDES(mu_);

  // Waits for the other hosts. Returns whether all have the same state.
  bool Agree(int64_t what) TENSORBOW_EXCLUDES(mu_);

  // The counters, after Await().
  Counts counts() const TENSORBOW_EXCLUDES(mu_);

  // Hosts that lack counted iterations, and a host that lacks none; the same on all
  // hosts.
  struct Stragglers {
    std::vector<int> hosts;
    int leader = -1;
  };
  // Returns the stragglers since the last call, after Await().
  Stragglers TakeStragglers() TENSORBOW_EXCLUDES(mu_);
  // Returns whether this host is one of them.
  bool behind() const TENSORBOW_EXCLUDES(mu_);

 private:
  static constexpr int kFields = 5;  // of a report, and one for hosts that wait

  void SendLocked(const Report& report) TENSORBOW_REQUIRES(mu_);
  Report ReportOf(int host) const TENSORBOW_REQUIRES(mu_);
  bool AllSeeRejoining() const TENSORBOW_REQUIRES(mu_);
  Result Decide() TENSORBOW_REQUIRES(mu_);
  Result Break(const std::string& why) TENSORBOW_REQUIRES(mu_);
  void Count() TENSORBOW_REQUIRES(mu_);
  void MarkBehind() TENSORBOW_REQUIRES(mu_);

  Hosts* const hosts_;

  mutable Mutex mu_;
  // The reports of all hosts, kFields each; null before the first.
  std::unique_ptr<HostSum> reports_ TENSORBOW_GUARDED_BY(mu_);
  Report own_ TENSORBOW_GUARDED_BY(mu_);
  std::function<void()> undo_ TENSORBOW_GUARDED_BY(mu_);
  std::function<bool()> arrived_ TENSORBOW_GUARDED_BY(mu_);
  Progress progress_ TENSORBOW_GUARDED_BY(mu_);
  std::string why_ TENSORBOW_GUARDED_BY(mu_);
  bool reported_ TENSORBOW_GUARDED_BY(mu_) = false;  // the cluster's failure
  Result result_ TENSORBOW_GUARDED_BY(mu_) = Result::kCounts;
  Counts counts_ TENSORBOW_GUARDED_BY(mu_);
  bool votes_ TENSORBOW_GUARDED_BY(mu_) = false;  // the report under way is a vote
  bool counted_ TENSORBOW_GUARDED_BY(mu_) = true;
  bool admits_ TENSORBOW_GUARDED_BY(mu_) = false;
  std::vector<bool> behind_ TENSORBOW_GUARDED_BY(mu_);   // by host
  std::vector<bool> trained_ TENSORBOW_GUARDED_BY(mu_);  // in the last that counts
  // True if no report is under way and the last iteration counts. The release store in
  // Await() pairs with the acquire load in clear().
  std::atomic<bool> clear_{true};
  bool under_way_ TENSORBOW_GUARDED_BY(mu_) = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_ROUNDS_H_
