// The hosts of a cluster, reached through TensorFlow's own servers: sums of flat
// buffers, in place, in the background.
//
// If a host has ended, all sums fail at once. A watchdog finds a host that hangs or
// cannot be reached within Settings::hang_limit. A host that reports a failure is heard
// within a second. In each case the errors of all other hosts name it. A cluster that
// has failed stays failed, unless it is elastic: then the remaining hosts regroup
// (regrouping.cc), and a lost host can rejoin (rejoining.cc).
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
    int rank = 0;                        // of this host
    absl::Duration start_limit = absl::Minutes(5);  // for all hosts to start
    absl::Duration hang_limit = absl::Seconds(4);   // for a host to answer
    bool elastic = false;
  };

  // Joins the process's cluster, which all sessions share. Waits for the other hosts;
  // if they are elastic and already train, the process is to rejoin them (rejoins()).
  // InvalidArgument for settings that make no sense, FailedPrecondition if the process
  // has joined with other settings, DeadlineExceeded if hosts are missing.
  static absl::StatusOr<std::shared_ptr<Cluster>> Join(const Settings& settings);
  ~Cluster() override;

  int size() const override { return static_cast<int>(server_->addresses().size()); }
  int rank() const override { return server_->rank(); }
  std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override;
  void Fail(const std::string& why) override ABSL_LOCKS_EXCLUDED(mu_);
  // Waits after Fail(), in a process that is about to end, until the others have read
  // the failure or do not answer; at most `hang_limit`.
  void AwaitToldOthers() const ABSL_LOCKS_EXCLUDED(mu_);
  std::string error() const override ABSL_LOCKS_EXCLUDED(mu_);
  bool elastic() const override { return elastic_; }
  std::vector<int> members() const override { return group().members; }
  std::string Regroup(const std::vector<int64_t>& brought, bool admits,
                      std::vector<std::vector<int64_t>>* all) override
      ABSL_LOCKS_EXCLUDED(mu_);
  bool rejoins() const override ABSL_LOCKS_EXCLUDED(mu_);
  bool sees_rejoining() const override { return sees_rejoining_.load(); }
  void Describe(int64_t program) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Sum;
  class GroupSum;
  // The hosts that take part in sums. The epoch is the same on all members and grows
  // whenever they change.
  struct Group {
    std::vector<int> members;  // ascending
    int64_t epoch;
    std::shared_ptr<TensorExchange> exchange;  // null before they have a group
  };
  // The failures that a host reports while hosts regroup, and when one has not
  // rejoined.
  static constexpr char kRegroups[] = "the hosts regroup";
  static constexpr char kNotRejoined[] = "a host that was to rejoin has not done so";

  Cluster(CollectiveServer* server, const Settings& settings);
  absl::Status MakeGroupKernel();
  // Waits for all hosts. `may_return`: does not wait if others train already.
  absl::Status AwaitHosts(absl::Duration limit, bool may_return);
  void Watch();
  Group group() const ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the members with their processes, which reach each other by rendezvous
  // `number`. No other group has had that number.
  absl::Status SetGroup(const std::vector<int>& members, int64_t epoch,
                        const std::vector<uint64_t>& incarnations, int64_t number)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Makes all hosts members, before the first group has been formed.
  absl::Status SetFirstGroup(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mu_);
  // Calls Fail(), unless the members have changed since that epoch.
  void FailIn(int64_t epoch, const std::string& why) ABSL_LOCKS_EXCLUDED(mu_);
  // Makes all current and future sums fail, here and on other hosts: those of the
  // current group, or those of this executor and this exchange, which may be null.
  void Abort(absl::string_view why) ABSL_LOCKS_EXCLUDED(mu_);
  void Abort(absl::string_view why, tensorflow::CollectiveExecutor* executor,
             TensorExchange* exchange);
  // Returns why a sum of that epoch has failed, with the hosts to blame, if any.
  std::string Explain(int64_t epoch, const absl::Status& status);
  // Returns the failure that another member reports for that epoch, or the members that
  // do not answer in time. The text is for users, and empty if all is well.
  std::string FindFailure(int64_t epoch, absl::Duration timeout) const;
  std::string NameDead(const std::vector<CollectiveServer::Answer>& answers) const;

  // Count the sums that the executor is computing.
  void NoteStart() { under_way_.fetch_add(1); }
  void NoteEnd() { under_way_.fetch_sub(1); }
  // Returns whether it has become idle in time.
  bool AwaitIdle(absl::Duration limit) const;
  // Waits until all hosts are there; DeadlineExceeded if some are not.
  absl::Status Greet();
  // Returns the members, including those of a newer group of any of these hosts.
  std::vector<int> MembersByOthers(const std::vector<int>& hosts) const;
  // Returns the members that answer; an error if they may not continue without the
  // others.
  absl::StatusOr<std::vector<int>> FindLeft() const;
  // Tries once to form a group of these hosts.
  absl::Status FormGroup(const std::vector<int>& hosts, absl::Duration limit,
                         const std::vector<int64_t>& brought,
                         std::vector<std::vector<int64_t>>* all)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Changes this host's notice, and publishes it.
  void Post(const std::function<void(Notice*)>& change) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the notices of all other hosts that answer.
  std::vector<std::optional<Notice>> ReadNotices() const;
  // Returns hosts that are not members and wait to rejoin.
  std::vector<int> FindRejoining() const ABSL_LOCKS_EXCLUDED(mu_);
  // Lets the waiting hosts rejoin; all members call it at about the same time. Returns
  // whether they have.
  bool Admit(const std::vector<int64_t>& brought,
             std::vector<std::vector<int64_t>>* all);
  // Rejoins the members.
  absl::Status Rejoin(const std::vector<int64_t>& brought,
                      std::vector<std::vector<int64_t>>* all) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until all of these hosts are ready, then calls FormGroup().
  absl::Status FormGroupWithRejoining(const std::vector<int>& hosts, int leader,
                                      const std::vector<int64_t>& brought,
                                      std::vector<std::vector<int64_t>>* all);

  CollectiveServer* const server_;  // not owned
  const absl::Duration hang_limit_;
  const absl::Duration start_limit_;
  const bool elastic_;
  std::unique_ptr<tensorflow::OpKernel> group_kernel_;

  mutable absl::Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);
  Group group_ ABSL_GUARDED_BY(mu_);
  Notice notice_ ABSL_GUARDED_BY(mu_);
  bool rejoins_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> sees_rejoining_{false};
  std::atomic<int> under_way_{0};

  absl::Notification ended_;
  std::thread watchdog_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_H_
