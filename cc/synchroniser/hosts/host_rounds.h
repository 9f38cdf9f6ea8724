// What the hosts of a cluster do has one fate: an iteration counts on all of them or on
// none. After every iteration each host reports what became of its part, in a small sum
// beside those of the values (host_average.h). The reports of all hosts are awaited
// before the next iteration updates anything.
//
//   all have trained, have no data or have left,
//     and at least one has trained                  the iteration counts
//   nobody has trained                              it is none, without an error
//   a task of some host has failed                  it is discarded
//   hosts do different things                       the cluster fails
//
// Where hosts average gradients and nothing can be taken back, they report before they
// update anything (Vote), and the iteration does not count before all gradients have
// arrived. If some hosts do not know their rows yet, it is counted by a report after
// it.
//
// Before its first iteration, and again when variables have been written since the
// last, a host says what it begins with (Agree), which has to be the same everywhere.
//
// Elastic hosts (Hosts::elastic()) whose reports are lost with a host may go on: those
// that are left agree on how many rounds have been decided, and a host that has not
// heard of the last one takes over its fate (Resume).
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
    int64_t program = 0;  // what was trained, or (kAgrees) is begun with
    int64_t tasks = 0;    // that count if the iteration does
    int64_t rows = 0;     // kUnknown in a vote, if they are
  };
  static constexpr int64_t kUnknown = -1;
  // The rows of a failed vote of a host that has lost what the others have learned.
  static constexpr int64_t kBehind = -2;
  enum class Fate { kCounts, kNone, kDiscarded, kBroken };
  // What a host's own numbers lack of the whole cluster's.
  struct Counts {
    int64_t iterations = 0;
    int64_t tasks = 0;
    int64_t rows = 0;
  };

  explicit HostRounds(Hosts* hosts);  // not owned

  Hosts* hosts() const { return hosts_; }
  // Whether the other hosts know of this: something has been reported. Before that they
  // may have made other sums.
  bool begun() const TENSORBOW_EXCLUDES(mu_);

  // Reports on an iteration. `undo` takes the iteration back on this host, where it
  // does not count. `arrived`, if any: waits for what else the hosts have sent in it,
  // without which it does not count; whether that is there. REQUIRES: the last one's
  // fate has been awaited.
  void Send(const Report& report, std::function<void()> undo,
            std::function<bool()> arrived = nullptr) TENSORBOW_EXCLUDES(mu_);
  // Says what becomes of this host's part of the iteration that is under way. What
  // Await() returns then is whether it goes on. `arrived` as above.
  void Vote(const Report& report, std::function<bool()> arrived)
      TENSORBOW_EXCLUDES(mu_);
  // After Await() of a vote: no report has to follow.
  bool counted() const TENSORBOW_EXCLUDES(mu_);
  // Whether the last iteration is known to count.
  bool clear() const { return clear_.load(std::memory_order_acquire); }
  // The fate of the last iteration, which stays until the next one is sent or it is
  // forgiven.
  Fate Await() TENSORBOW_EXCLUDES(mu_);
  // Why it does not count, for people; empty if it does.
  std::string why() const TENSORBOW_EXCLUDES(mu_);
  // What else the hosts exchange has not arrived.
  Fate Break() TENSORBOW_EXCLUDES(mu_);
  // Whether all hosts have seen, when they reported last, that one waits to be taken
  // back; the same on all of them. It is, before their next iteration.
  bool takes_back() const TENSORBOW_EXCLUDES(mu_);
  // What this host knows of the rounds, as it tells other hosts that regroup.
  struct Standing {
    int64_t decided = 0;        // rounds
    Fate fate = Fate::kCounts;  // of the last of them
  };
  Standing standing() const TENSORBOW_EXCLUDES(mu_);
  // The hosts have regrouped. `last`: of a host that knows most. Returns whether the
  // round that was lost here is decided there: then it has this fate. Else it has to be
  // made again.
  bool Resume(const Standing& last) TENSORBOW_EXCLUDES(mu_);
  // The numbers that this host's lack of the cluster's from now on.
  void SetCounts(const Counts& counts) TENSORBOW_EXCLUDES(mu_);
  // Counts this host's part of the iteration that it has reported on last, which
  // nobody else here does.
  void CountOwn() TENSORBOW_EXCLUDES(mu_);
  // The user has been told: the next iteration may begin.
  void Forgive() TENSORBOW_EXCLUDES(mu_);
  // Await(); whether the last iteration does not count and the user has not been told.
  bool LostUntold() TENSORBOW_EXCLUDES(mu_);

  // Waits for the other hosts. Returns whether all of them begin with the same.
  bool Agree(int64_t what) TENSORBOW_EXCLUDES(mu_);

  // After Await().
  Counts counts() const TENSORBOW_EXCLUDES(mu_);

  // Hosts that lack some of the iterations that count, and a host that has had a part
  // in all of them; the same on all hosts.
  struct Stragglers {
    std::vector<int> hosts;
    int leader = -1;
  };
  // After Await(); the next call knows of later iterations only.
  Stragglers TakeStragglers() TENSORBOW_EXCLUDES(mu_);
  // Whether this host is one of them.
  bool behind() const TENSORBOW_EXCLUDES(mu_);

 private:
  static constexpr int kFields = 5;  // of a report, and whether somebody waits

  void SendLocked(const Report& report) TENSORBOW_REQUIRES(mu_);
  Report ReportOf(int host) const TENSORBOW_REQUIRES(mu_);
  bool AllSeeReturning() const TENSORBOW_REQUIRES(mu_);
  Fate Judge() TENSORBOW_REQUIRES(mu_);
  Fate Break(const std::string& why) TENSORBOW_REQUIRES(mu_);
  void Count() TENSORBOW_REQUIRES(mu_);
  void NoteBehind() TENSORBOW_REQUIRES(mu_);

  Hosts* const hosts_;

  mutable Mutex mu_;
  // Of all hosts, kFields each; null before the first report.
  std::unique_ptr<HostSum> reports_ TENSORBOW_GUARDED_BY(mu_);
  Report own_ TENSORBOW_GUARDED_BY(mu_);
  std::function<void()> undo_ TENSORBOW_GUARDED_BY(mu_);
  std::function<bool()> arrived_ TENSORBOW_GUARDED_BY(mu_);
  Standing standing_ TENSORBOW_GUARDED_BY(mu_);
  std::string why_ TENSORBOW_GUARDED_BY(mu_);
  bool told_ TENSORBOW_GUARDED_BY(mu_) = false;  // that the cluster has failed
  Fate fate_ TENSORBOW_GUARDED_BY(mu_) = Fate::kCounts;
  Counts counts_ TENSORBOW_GUARDED_BY(mu_);
  bool votes_ TENSORBOW_GUARDED_BY(mu_) = false;  // the report under way is a vote
  bool counted_ TENSORBOW_GUARDED_BY(mu_) = true;
  bool takes_back_ TENSORBOW_GUARDED_BY(mu_) = false;
  std::vector<bool> behind_ TENSORBOW_GUARDED_BY(mu_);   // by host
  std::vector<bool> trained_ TENSORBOW_GUARDED_BY(mu_);  // in the last that counts
  // No report is under way and the last iteration counts. The release store in Await()
  // pairs with the acquire load there.
  std::atomic<bool> clear_{true};
  bool under_way_ TENSORBOW_GUARDED_BY(mu_) = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SYNCHRONISER_HOSTS_HOST_ROUNDS_H_
