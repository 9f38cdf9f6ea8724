// The sums of a Cluster: over its members, and the one by which hosts form a group. For
// cc/cluster only.
#ifndef TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_
#define TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "cc/cluster/cluster.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// A sum over the hosts that are members when Start() is called.
class Cluster::Sum : public HostSum {
 public:
  Sum(Cluster* cluster, tensorflow::DataType type, int64_t n);
  ~Sum() override { Await(); }

  void* data() override { return values_.data(); }
  void Start() override;
  std::string Await() override;

 private:
  Cluster* const cluster_;  // not owned
  int64_t key_epoch_ = -1;  // the epoch in which `name_` is the sum's name
  std::string name_;
  tensorflow::Tensor values_;
  std::unique_ptr<absl::Notification> over_;  // null if no sum is running
  absl::Status status_;  // of the running sum, valid when it is over
  int64_t epoch_ = 0;    // in which the sum was started
  std::string error_;    // of the last sum
};

// A sum over hosts that need not be members: those that compute it under the same key.
// Executes CollectiveReduceV2 without a graph.
class Cluster::GroupSum {
 public:
  GroupSum(Cluster* cluster, int num_hosts, int key, int64_t n);

  int64_t* values() { return values_.flat<int64_t>().data(); }
  // values() ← their sum. After `limit` it fails here, and so on the other hosts.
  absl::Status AddUp(absl::Duration limit);

 private:
  Cluster* const cluster_;  // not owned
  tensorflow::Tensor values_, group_size_, key_;
};

// Marks reasons given by a host, as opposed to TensorFlow's.
inline constexpr absl::string_view kOurs = "[tensorbow] ";
// Returns the argument of another host's Fail() from TensorFlow's message, or "".
std::string WhyAborted(absl::string_view message);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_
