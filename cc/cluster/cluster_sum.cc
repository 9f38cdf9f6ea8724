#include "cc/cluster/cluster_sum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the elements of a GroupSum of n, padded. The ring cuts a vector into at
// most one part for each host: the host's share, rounded up to Eigen's alignment. With
// fewer parts than hosts, some wait for nothing from their neighbour, and do not learn
// of a failure.
int64_t Padded(int64_t n, int num_hosts) {
  const int64_t unit = num_hosts * (EIGEN_MAX_ALIGN_BYTES / sizeof(int64_t));
  return std::max<int64_t>((n + unit - 1) / unit, num_hosts) * unit;
}

tf::Tensor Scalar(int value) {
  tf::Tensor scalar(tf::DT_INT32, tf::TensorShape({}));
  scalar.scalar<int32_t>()() = value;
  return scalar;
}

tf::Tensor Zeros(tf::DataType type, int64_t n) {
  tf::Tensor zeros(type, tf::TensorShape({n}));
  std::fill_n(static_cast<char*>(zeros.data()), zeros.TotalBytes(), 0);
  return zeros;
}

}  // namespace

std::string WhyAborted(absl::string_view message) {
  const size_t begin = message.find(kOurs);
  if (begin == message.npos) return "";
  message.remove_prefix(begin + kOurs.size());
  return std::string(message.substr(0, message.find('\n')));
}

// --------------------------------------------------------------------------- Sum

Cluster::Sum::Sum(Cluster* cluster, tf::DataType type, int64_t n)
    : cluster_(cluster), values_(Zeros(type, n)) {}

void Cluster::Sum::Start() {
  error_ = cluster_->error();
  if (!error_.empty()) return;
  const Group group = cluster_->group();
  epoch_ = group.epoch;
  if (key_epoch_ != group.epoch) {
    // All members start the same sums first in an epoch, also a member that is new.
    name_ = absl::StrCat("sum", cluster_->server_->NextKey());
    key_epoch_ = group.epoch;
  }
  if (group.members.size() == 1) return;  // the sum is this host's own value
  over_ = std::make_unique<absl::Notification>();
  cluster_->NoteStart();
  group.exchange->Sum(name_, values_, [this](const absl::Status& status) {
    status_ = status;
    cluster_->NoteEnd();
    over_->Notify();
  });
}

std::string Cluster::Sum::Await() {
  if (over_ == nullptr) return error_;
  over_->WaitForNotification();
  over_.reset();
  if (!status_.ok()) {
    values_ = Zeros(values_.dtype(), values_.NumElements());  // others may read them
    error_ = cluster_->Explain(epoch_, status_);
  }
  return error_;
}

// ----------------------------------------------------------------------- GroupSum

Cluster::GroupSum::GroupSum(Cluster* cluster, int num_hosts, int key, int64_t n)
    : cluster_(cluster),
      values_(Zeros(tf::DT_INT64, Padded(n, num_hosts))),
      group_size_(Scalar(num_hosts)),
      key_(Scalar(key)) {}

absl::Status Cluster::GroupSum::AddUp(absl::Duration limit) {
  // `values_` alone refers to its buffer, so the kernel computes in place.
  const std::vector<tf::TensorValue> inputs = {
      tf::TensorValue(&values_), tf::TensorValue(&group_size_), tf::TensorValue(&key_),
      tf::TensorValue(&key_)};
  const std::vector<tf::AllocatorAttributes> attributes(inputs.size());
  tf::Device* const device = cluster_->server_->device();
  tf::OpKernelContext::Params params;
  params.op_kernel = cluster_->group_kernel_.get();
  params.device = device;
  params.resource_manager = device->resource_manager();
  params.collective_executor = cluster_->server_->executor();
  params.inputs = inputs;
  params.input_alloc_attrs = attributes;
  params.output_attr_array = attributes.data();
  params.frame_iter = tf::FrameAndIter(0, 0);
  tf::OpKernelContext context(&params);
  absl::Notification over;
  cluster_->NoteStart();
  device->ComputeAsync(cluster_->group_kernel_->AsAsync(), &context, [&] {
    cluster_->NoteEnd();
    over.Notify();
  });
  if (!over.WaitForNotificationWithTimeout(limit)) {
    cluster_->Abort(kRegroups);
    over.WaitForNotification();
  }
  // The output is the input, which is lost after an error.
  delete context.release_output(0).tensor;
  return context.status();
}

}  // namespace tensorbow
