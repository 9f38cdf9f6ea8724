// The hosts of a cluster, reached through TensorFlow's own servers: sums of flat
// buffers, in place, in the background.
//
// A host that has ended makes all sums fail at once; one that hangs or cannot be
// reached is found by a watchdog within Settings::hang_limit. One that says that it has
// failed is heard of within a second. Either way every other host's error names it. A
// cluster that has failed stays failed, unless it is elastic and those that are left
// regroup (regrouping.cc), or take back one that has been lost (coming_back.cc).
#ifndef TENSORBOW_CC_CLUSTER_CLUSTER_H_
#define TENSORBOW_CC_CLUSTER_CLUSTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "cc/cluster/collective_server.h"
#include "cc/cluster/notice.h"
#include "cc/cluster/tensor_exchange.h"
#include "cc/synchroniser/hosts/hosts.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

class Cluster : public Hosts {
 public:
  struct Settings {
    std::vector<std::string> addresses;  // "host:port" of all hosts, the chief's first
    int rank = 0;                        // of this one
    absl::Duration start_limit = absl::Minutes(5);  // for all hosts to be there
    absl::Duration hang_limit = absl::Seconds(4);   // for a host to answer
    bool elastic = false;
  };

  // The process's cluster: all sessions share it. Waits for the other hosts or, if
  // these are elastic and train already, is to come back to them (returns()).
  // InvalidArgument for settings that make no sense, FailedPrecondition for others than
  // the process has joined with, DeadlineExceeded if hosts are missing.
  static absl::StatusOr<std::shared_ptr<Cluster>> Join(const Settings& settings);
  ~Cluster() override;

  int size() const override { return static_cast<int>(server_->addresses().size()); }
  int rank() const override { return server_->rank(); }
  std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override;
  void Fail(const std::string& why) override ABSL_LOCKS_EXCLUDED(mu_);
  // After Fail(), of a process that is about to end: until the others know, or do not
  // answer; no longer than `hang_limit`.
  void AwaitToldOthers() const ABSL_LOCKS_EXCLUDED(mu_);
  std::string error() const override ABSL_LOCKS_EXCLUDED(mu_);
  bool elastic() const override { return elastic_; }
  std::vector<int> members() const override { return group().members; }
  std::string Regroup(const std::vector<int64_t>& brought, bool takes_back,
                      std::vector<std::vector<int64_t>>* all) override
      ABSL_LOCKS_EXCLUDED(mu_);
  bool returns() const override ABSL_LOCKS_EXCLUDED(mu_);
  bool sees_returning() const override { return sees_returning_.load(); }
  void Describe(int64_t program) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Sum;
  class Meeting;
  // Who takes part in sums. The epoch is the same on all members and grows whenever
  // they change.
  struct Group {
    std::vector<int> members;  // ascending
    int64_t epoch;
    std::shared_ptr<TensorExchange> exchange;  // null where it has not met the others
  };
  // What a host says while hosts regroup, and where one that comes back does not.
  static constexpr char kRegroups[] = "the hosts regroup";
  static constexpr char kNotBack[] = "a host that was to come back has not done so";

  Cluster(CollectiveServer* server, const Settings& settings);
  absl::Status MakeMeetingKernel();
  // `may_return`: does not wait if others train already.
  absl::Status AwaitHosts(absl::Duration limit, bool may_return);
  void Watch();
  Group group() const ABSL_LOCKS_EXCLUDED(mu_);
  // The members, with the processes that they are, and how they reach each other: by
  // rendezvous `number`, which no other group has had.
  absl::Status SetGroup(const std::vector<int>& members, int64_t epoch,
                        const std::vector<uint64_t>& incarnations, int64_t number)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Those of hosts that have not met: all of them.
  absl::Status SetFirstGroup(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mu_);
  // Fail(), unless the members have changed since that epoch.
  void FailIn(int64_t epoch, const std::string& why) ABSL_LOCKS_EXCLUDED(mu_);
  // All sums that are under way, or begin, fail, here and on other hosts: those of the
  // group that there is, or by this executor and this exchange, which may be null.
  void Abort(absl::string_view why) ABSL_LOCKS_EXCLUDED(mu_);
  void Abort(absl::string_view why, tensorflow::CollectiveExecutor* executor,
             TensorExchange* exchange);
  // Why a sum of that epoch has failed: which hosts are to blame, if any.
  std::string Explain(int64_t epoch, const absl::Status& status);
  // What another member says has failed in that epoch, or else who does not answer in
  // time, and why; for people. Empty if all is well.
  std::string FindFailure(int64_t epoch, absl::Duration timeout) const;
  std::string NameDead(const std::vector<CollectiveServer::Answer>& answers) const;

  // Sums that the executor is at.
  void NoteStart() { under_way_.fetch_add(1); }
  void NoteEnd() { under_way_.fetch_sub(1); }
  // Whether it has become idle in time.
  bool AwaitIdle(absl::Duration limit) const;
  // The hosts begin together: DeadlineExceeded if others do not.
  absl::Status Greet();
  // The members and, if some of these hosts have met others since, those.
  std::vector<int> MembersByOthers(const std::vector<int>& hosts) const;
  // Those of the members that answer; an error if they may not go on without the
  // others.
  absl::StatusOr<std::vector<int>> FindLeft() const;
  // One attempt to become a group of these hosts.
  absl::Status Meet(const std::vector<int>& hosts, absl::Duration limit,
                    const std::vector<int64_t>& brought,
                    std::vector<std::vector<int64_t>>* all) ABSL_LOCKS_EXCLUDED(mu_);

  // What others read of this host ← as it is changed.
  void Post(const std::function<void(Notice*)>& change) ABSL_LOCKS_EXCLUDED(mu_);
  // The notices of all other hosts that answer.
  std::vector<std::optional<Notice>> ReadNotices() const;
  // Hosts that are no members, and wait to be.
  std::vector<int> FindReturning() const ABSL_LOCKS_EXCLUDED(mu_);
  // The members become members together with those that wait: on each of them at about
  // the same time. Whether they have.
  bool TakeBack(const std::vector<int64_t>& brought,
                std::vector<std::vector<int64_t>>* all);
  // Becomes one of them.
  absl::Status ComeBack(const std::vector<int64_t>& brought,
                        std::vector<std::vector<int64_t>>* all)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Meet(), when all of these are about to.
  absl::Status MeetReturning(const std::vector<int>& hosts, int leader,
                             const std::vector<int64_t>& brought,
                             std::vector<std::vector<int64_t>>* all);

  CollectiveServer* const server_;  // not owned
  const absl::Duration hang_limit_;
  const absl::Duration start_limit_;
  const bool elastic_;
  std::unique_ptr<tensorflow::OpKernel> meeting_kernel_;

  mutable absl::Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);
  Group group_ ABSL_GUARDED_BY(mu_);
  Notice notice_ ABSL_GUARDED_BY(mu_);
  bool returns_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> sees_returning_{false};
  std::atomic<int> under_way_{0};

  absl::Notification ended_;
  std::thread watchdog_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_H_
