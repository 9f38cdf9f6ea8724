#include "cc/cluster/cluster_sum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Sums of an epoch have keys of their own: what is left of an earlier one's requests
// finds nothing.
constexpr int kKeysOfAnEpoch = 1 << 20;
constexpr int kEpochs = 1000;  // until they come again, below the keys of meetings

// How many elements a sum of n has. The ring cuts a vector into at most one part for
// each host, which is the host's share and what is left to the next multiple of Eigen's
// alignment, a whole one where nothing is. Where there is one part, its first host
// waits for nothing that comes from its neighbour, and does not hear of a failure:
// there have to be two or, where hosts may become fewer, one for each.
int64_t Padded(int64_t n, tf::DataType type, int num_hosts, bool elastic) {
  const int64_t unit = num_hosts * (EIGEN_MAX_ALIGN_BYTES / tf::DataTypeSize(type));
  const int64_t least = elastic ? num_hosts : num_hosts == 2 ? 2 : 1;
  return std::max((n + unit - 1) / unit, least) * unit;
}

tf::Tensor Scalar(int value) {
  tf::Tensor scalar(tf::DT_INT32, tf::TensorShape({}));
  scalar.scalar<int32_t>()() = value;
  return scalar;
}

}  // namespace

std::string WhyAborted(absl::string_view message) {
  const size_t begin = message.find(kOurs);
  if (begin == message.npos) return "";
  message.remove_prefix(begin + kOurs.size());
  return std::string(message.substr(0, message.find('\n')));
}

Cluster::Sum::Sum(Cluster* cluster, tf::OpKernel* kernel, tf::DataType type, int64_t n)
    : cluster_(cluster),
      kernel_(kernel),
      values_(type,
              tf::TensorShape({Padded(n, type, cluster->size(), cluster->elastic())})),
      attributes_(4) {
  Clear();
}

Cluster::Sum::Sum(Cluster* cluster, tf::OpKernel* kernel, Keys keys, tf::DataType type,
                  int64_t n)
    : cluster_(cluster),
      kernel_(kernel),
      keys_(keys),
      values_(type,
              tf::TensorShape({Padded(n, type, cluster->size(), /*elastic=*/true)})),
      attributes_(4) {
  Clear();
}

Cluster::Sum::Keys Cluster::Sum::KeysNow(const Group& group) {
  if (keys_.has_value()) return *keys_;
  // All members start the same sums first in an epoch, also one that has just come.
  if (key_epoch_ != group.epoch) key_ = cluster_->server_->NextKey();
  key_epoch_ = group.epoch;
  const int epoch = static_cast<int>(group.epoch % kEpochs);
  return {static_cast<int>(group.members.size()), 1 + epoch,
          key_ + epoch * kKeysOfAnEpoch};
}

void Cluster::Sum::Start() {
  error_ = keys_.has_value() ? "" : cluster_->error();
  if (!error_.empty()) return;
  const Group group = cluster_->group();
  epoch_ = group.epoch;
  const Keys keys = KeysNow(group);
  if (keys.group_size == 1) return;  // it is what this host has
  group_size_ = Scalar(keys.group_size);
  group_key_ = Scalar(keys.group);
  instance_key_ = Scalar(keys.instance);
  over_ = std::make_unique<absl::Notification>();
  // `values_` alone refers to its buffer: the kernel computes in place.
  inputs_ = {tf::TensorValue(&values_), tf::TensorValue(&group_size_),
             tf::TensorValue(&group_key_), tf::TensorValue(&instance_key_)};
  context_.reset();
  params_ = tf::OpKernelContext::Params();
  params_.op_kernel = kernel_;
  tf::Device* const device = cluster_->server_->device();
  params_.device = device;
  params_.resource_manager = device->resource_manager();
  params_.collective_executor = cluster_->server_->executor();
  params_.inputs = inputs_;
  params_.input_alloc_attrs = attributes_;
  params_.output_attr_array = attributes_.data();
  params_.frame_iter = tf::FrameAndIter(0, 0);
  context_ = std::make_unique<tf::OpKernelContext>(&params_);
  cluster_->NoteStart();
  device->ComputeAsync(kernel_->AsAsync(), context_.get(), [this] {
    cluster_->NoteEnd();
    over_->Notify();
  });
}

absl::Status Cluster::Sum::TakeResult() {
  over_.reset();
  const absl::Status status = context_->status();
  // The output is the input, which is gone after an error.
  delete context_->release_output(0).tensor;
  context_.reset();
  if (!status.ok()) {
    values_ = tf::Tensor(values_.dtype(), values_.shape());
    Clear();
  }
  return status;
}

std::string Cluster::Sum::Await() {
  if (over_ == nullptr) return error_;
  over_->WaitForNotification();
  const absl::Status status = TakeResult();
  if (!status.ok()) error_ = cluster_->Explain(epoch_, status);
  return error_;
}

absl::Status Cluster::Sum::AwaitFor(absl::Duration limit) {
  if (over_ == nullptr) return absl::OkStatus();
  if (!over_->WaitForNotificationWithTimeout(limit)) {
    cluster_->Abort(kRegroups);
    over_->WaitForNotification();
  }
  return TakeResult();
}

void Cluster::Sum::Clear() {
  std::fill_n(static_cast<char*>(data()), values_.TotalBytes(), 0);
}

}  // namespace tensorbow
