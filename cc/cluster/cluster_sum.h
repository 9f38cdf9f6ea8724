// One sum over the hosts of a Cluster: a reduction, executed by a kernel without a
// graph around it. For cc/cluster only.
#ifndef TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_
#define TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_

#include <cstdint>
#include <memory>
#include <optional>
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

class Cluster::Sum : public HostSum {
 public:
  // Which hosts add up, and under which keys.
  struct Keys {
    int group_size;
    int group;
    int instance;
  };

  // A sum over the hosts that are members when Start() is called.
  Sum(Cluster* cluster, tensorflow::OpKernel* kernel, tensorflow::DataType type,
      int64_t n);
  // A sum over the hosts that start one under these keys; also when the cluster has
  // failed.
  Sum(Cluster* cluster, tensorflow::OpKernel* kernel, Keys keys,
      tensorflow::DataType type, int64_t n);
  ~Sum() override { Await(); }

  void* data() override { return values_.data(); }
  void Start() override;
  std::string Await() override;
  // Waits no longer than this; then the sum fails here, and with it on other hosts.
  absl::Status AwaitFor(absl::Duration limit);

 private:
  void Clear();
  Keys KeysNow(const Group& group);
  absl::Status TakeResult();

  Cluster* const cluster_;              // not owned
  tensorflow::OpKernel* const kernel_;  // not owned
  const std::optional<Keys> keys_;      // nullopt: those of the members
  int key_ = 0;                         // of a sum over the members, in
  int64_t key_epoch_ = -1;              // which epoch
  tensorflow::Tensor values_, group_size_, group_key_, instance_key_;
  std::vector<tensorflow::TensorValue> inputs_;
  std::vector<tensorflow::AllocatorAttributes> attributes_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;  // of the sum under way
  std::unique_ptr<absl::Notification> over_;  // null where none is under way
  int64_t epoch_ = 0;                         // in which it was started
  std::string error_;                         // of the last one
};

// What a host gives as its reason, as opposed to what TensorFlow does.
inline constexpr absl::string_view kOurs = "[tensorbow] ";
// What another host has called Fail() with, from TensorFlow's words for it; else empty.
std::string WhyAborted(absl::string_view message);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_CLUSTER_CLUSTER_SUM_H_
