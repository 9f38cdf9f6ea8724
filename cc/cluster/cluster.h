// The hosts of a cluster, reached through TensorFlow's own collectives: its ring
// reduction on flat buffers, in place, in the background.
//
// A host that has ended makes all sums fail at once; one that hangs or cannot be
// reached is found by a watchdog within Settings::hang_limit. Either way every other
// host's error names it. A cluster that has failed stays failed.
#ifndef TENSORBOW_CC_CLUSTER_CLUSTER_H_
#define TENSORBOW_CC_CLUSTER_CLUSTER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "cc/cluster/collective_server.h"
#include "cc/synchroniser/hosts.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

class Cluster : public Hosts {
 public:
  struct Settings {
    std::vector<std::string> addresses;  // "host:port" of all hosts, the chief's first
    int rank = 0;                        // of this one
    absl::Duration start_limit = absl::Minutes(5);  // for all hosts to be there
    absl::Duration hang_limit = absl::Seconds(4);   // for a host to answer
  };

  // The process's cluster: all sessions share it. Waits for the other hosts.
  // InvalidArgument for settings that make no sense, FailedPrecondition for others than
  // the process has joined with, DeadlineExceeded if hosts are missing.
  static absl::StatusOr<std::shared_ptr<Cluster>> Join(const Settings& settings);
  ~Cluster() override;

  int size() const override { return static_cast<int>(server_->addresses().size()); }
  int rank() const override { return server_->rank(); }
  std::unique_ptr<HostSum> NewSum(Type type, int64_t n) override;
  void Fail(const std::string& why) override ABSL_LOCKS_EXCLUDED(mu_);
  std::string error() const override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Sum;

  Cluster(CollectiveServer* server, absl::Duration hang_limit);
  absl::Status MakeKernels();
  absl::Status AwaitHosts(absl::Duration limit);
  void Watch();
  // Why a sum has failed: which hosts are to blame, if any.
  std::string Explain(const absl::Status& status);
  // Who of the others does not answer in time, and why, for people; empty if all do.
  std::string FindDead(absl::Duration timeout) const;

  CollectiveServer* const server_;  // not owned
  const absl::Duration hang_limit_;
  std::vector<std::unique_ptr<tensorflow::OpKernel>> kernels_;  // by Type

  mutable absl::Mutex mu_;
  std::string error_ ABSL_GUARDED_BY(mu_);

  absl::Notification ended_;
  std::thread watchdog_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_H_
