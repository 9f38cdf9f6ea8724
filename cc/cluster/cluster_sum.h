// The sums of a Cluster: those over its members, and the one by which hosts become
// members. For cc/cluster only.
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
  int64_t key_epoch_ = -1;  // in which `name_` names it
  std::string name_;
  tensorflow::Tensor values_;
  std::unique_ptr<absl::Notification> over_;  // null where none is under way
  absl::Status status_;                       // of the sum under way, when it is over
  int64_t epoch_ = 0;                         // in which it was started
  std::string error_;                         // of the last one
};

// A sum over hosts that need not be members, and need only know each other: those that
// make it under the same key. By CollectiveReduceV2, executed without a graph around
// it.
class Cluster::Meeting {
 public:
  Meeting(Cluster* cluster, int num_hosts, int key, int64_t n);

  int64_t* values() { return values_.flat<int64_t>().data(); }
  // values() ← their sum. Waits no longer than this: then it fails here, and with it on
  // other hosts.
  absl::Status AddUp(absl::Duration limit);

 private:
  Cluster* const cluster_;  // not owned
  tensorflow::Tensor values_, group_size_, key_;
};

// What a host gives as its reason, as opposed to what TensorFlow does.
inline constexpr absl::string_view kOurs = "[tensorbow] ";
// What another host has called Fail() with, from TensorFlow's words for it; else empty.
std::string WhyAborted(absl::string_view message);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_
