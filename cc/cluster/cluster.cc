#include "cc/cluster/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/version.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr int kGroupKey = 1;  // all hosts are one group
constexpr absl::Duration kWatchInterval = absl::Seconds(1);
constexpr absl::Duration kGreetInterval = absl::Milliseconds(100);
constexpr int kTriesToBlame = 10;
// What a host gives as its reason, as opposed to what TensorFlow does.
constexpr absl::string_view kOurs = "[tensorbow] ";

tf::DataType DataTypeOf(Hosts::Type type) {
  switch (type) {
    case Hosts::Type::kDouble:
      return tf::DT_DOUBLE;
    case Hosts::Type::kInt64:
      return tf::DT_INT64;
    case Hosts::Type::kFloat:
      break;
  }
  return tf::DT_FLOAT;
}

// How many elements a sum of n has. The ring cuts a vector into one part for each host,
// at multiples of Eigen's alignment. Where a part is empty, a host waits for nothing
// that comes from its neighbour, and does not hear of a failure: so all are equal.
int64_t Padded(int64_t n, int num_hosts) {
  const int64_t unit = num_hosts * (EIGEN_MAX_ALIGN_BYTES / sizeof(float));
  return (n + unit - 1) / unit * unit;
}

tf::Tensor Scalar(int value) {
  tf::Tensor scalar(tf::DT_INT32, tf::TensorShape({}));
  scalar.scalar<int32_t>()() = value;
  return scalar;
}

absl::Status CheckSettings(const Cluster::Settings& settings) {
  const int size = static_cast<int>(settings.addresses.size());
  if (size == 0) {
    return absl::InvalidArgumentError(
        "Got a cluster without hosts; wanted at least one");
  }
  if (settings.rank < 0 || settings.rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("Got host ", settings.rank, " of ",
                                                   size, ", wanted 0 to ", size - 1));
  }
  std::vector<std::string> sorted = settings.addresses;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Got the address ", *twice, " twice; wanted one for each host"));
  }
  return absl::OkStatus();
}

// What another host has called Fail() with, from TensorFlow's words for it; else empty.
std::string WhyAborted(absl::string_view message) {
  const size_t begin = message.find(kOurs);
  if (begin == message.npos) return "";
  message.remove_prefix(begin + kOurs.size());
  return std::string(message.substr(0, message.find('\n')));
}

}  // namespace

// One reduction, executed by a kernel without a graph around it.
class Cluster::Sum : public HostSum {
 public:
  Sum(Cluster* cluster, tf::OpKernel* kernel, int key, tf::DataType type, int64_t n)
      : cluster_(cluster),
        kernel_(kernel),
        values_(type, tf::TensorShape({Padded(n, cluster->size())})),
        group_size_(Scalar(cluster->size())),
        group_key_(Scalar(kGroupKey)),
        key_(Scalar(key)),
        attributes_(4) {
    Clear();
  }

  ~Sum() override { Await(); }

  void* data() override { return values_.data(); }

  void Start() override {
    error_ = cluster_->error();
    if (!error_.empty()) return;
    over_ = std::make_unique<absl::Notification>();
    // `values_` alone refers to its buffer: the kernel computes in place.
    inputs_ = {tf::TensorValue(&values_), tf::TensorValue(&group_size_),
               tf::TensorValue(&group_key_), tf::TensorValue(&key_)};
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
    device->ComputeAsync(kernel_->AsAsync(), context_.get(),
                         [this] { over_->Notify(); });
  }

  std::string Await() override {
    if (over_ == nullptr) return error_;
    over_->WaitForNotification();
    over_.reset();
    const absl::Status status = context_->status();
    // The output is the input, which is gone after an error.
    delete context_->release_output(0).tensor;
    context_.reset();
    if (!status.ok()) {
      values_ = tf::Tensor(values_.dtype(), values_.shape());
      Clear();
      error_ = cluster_->Explain(status);
    }
    return error_;
  }

 private:
  void Clear() { std::fill_n(static_cast<char*>(data()), values_.TotalBytes(), 0); }

  Cluster* const cluster_;      // not owned
  tf::OpKernel* const kernel_;  // not owned
  tf::Tensor values_, group_size_, group_key_, key_;
  std::vector<tf::TensorValue> inputs_;
  std::vector<tf::AllocatorAttributes> attributes_;
  tf::OpKernelContext::Params params_;
  std::unique_ptr<tf::OpKernelContext> context_;  // of the sum under way
  std::unique_ptr<absl::Notification> over_;      // null where none is under way
  std::string error_;                             // of the last one
};

absl::StatusOr<std::shared_ptr<Cluster>> Cluster::Join(const Settings& settings) {
  TF_RETURN_IF_ERROR(CheckSettings(settings));
  static absl::Mutex mu(absl::kConstInit);
  static auto* const joined = new std::weak_ptr<Cluster>;
  absl::MutexLock lock(&mu);
  TF_ASSIGN_OR_RETURN(CollectiveServer* const server,
                      CollectiveServer::Start(settings.addresses, settings.rank));
  std::shared_ptr<Cluster> cluster = joined->lock();
  if (cluster != nullptr) return cluster;
  cluster.reset(new Cluster(server, settings.hang_limit));
  TF_RETURN_IF_ERROR(cluster->MakeKernels());
  TF_RETURN_IF_ERROR(cluster->AwaitHosts(settings.start_limit));
  cluster->watchdog_ = std::thread([raw = cluster.get()] { raw->Watch(); });
  *joined = cluster;
  return cluster;
}

Cluster::Cluster(CollectiveServer* server, absl::Duration hang_limit)
    : server_(server), hang_limit_(hang_limit) {}

Cluster::~Cluster() {
  ended_.Notify();
  if (watchdog_.joinable()) watchdog_.join();
}

absl::Status Cluster::MakeKernels() {
  tf::Device* const device = server_->device();
  for (Type type : {Type::kFloat, Type::kDouble, Type::kInt64}) {
    tf::NodeDef node;
    // Without a time limit: that costs two sleeping threads for every sum.
    TF_RETURN_IF_ERROR(tf::NodeDefBuilder("sum_over_hosts", "CollectiveReduceV2")
                           .Attr("T", DataTypeOf(type))
                           .Attr("merge_op", "Add")
                           .Attr("final_op", "Id")
                           .Attr("communication_hint", "ring")
                           .Attr("timeout_seconds", 0.0f)
                           .Attr("max_subdivs_per_device", -1)
                           .Device(device->name())
                           .Input("input", 0, DataTypeOf(type))
                           .Input("group_size", 0, tf::DT_INT32)
                           .Input("group_key", 0, tf::DT_INT32)
                           .Input("instance_key", 0, tf::DT_INT32)
                           .Input(absl::Span<const tf::NodeDefBuilder::NodeOut>())
                           .Finalize(&node));
    absl::Status status;
    kernels_.push_back(tf::CreateOpKernel(tf::DEVICE_CPU, device,
                                          device->GetAllocator({}), node,
                                          TF_GRAPH_DEF_VERSION, &status));
    TF_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Cluster::AwaitHosts(absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  std::string missing = FindDead(absl::Seconds(1));
  while (!missing.empty() && absl::Now() < deadline) {
    absl::SleepFor(kGreetInterval);
    missing = FindDead(absl::Seconds(1));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "Not all hosts of the cluster are there after ", absl::FormatDuration(limit),
      ": ", missing, ". Start the program on every host, and check the addresses."));
}

std::string Cluster::FindDead(absl::Duration timeout) const {
  std::vector<std::string> dead;
  const std::vector<absl::Status> health = server_->CheckHealth(timeout);
  for (size_t i = 0; i < health.size(); ++i) {
    if (health[i].ok()) continue;
    const std::string message(health[i].message());
    dead.push_back(
        absl::StrCat("host ", i, " (", server_->addresses()[i],
                     ") does not answer: ", message.substr(0, message.find('\n'))));
  }
  return absl::StrJoin(dead, "; ");
}

void Cluster::Watch() {
  while (!ended_.WaitForNotificationWithTimeout(kWatchInterval)) {
    const std::string dead = FindDead(hang_limit_ - kWatchInterval);
    if (!dead.empty()) return Fail(dead);
  }
}

std::string Cluster::Explain(const absl::Status& status) {
  if (!error().empty()) return error();
  std::string why = WhyAborted(status.message());
  // A host that is ending may answer a last time.
  for (int i = 0; why.empty() && i < kTriesToBlame; ++i) {
    if (i > 0) absl::SleepFor(kGreetInterval);
    why = FindDead(absl::Seconds(1));
  }
  Fail(why.empty() ? std::string(status.message()) : why);
  return error();
}

std::unique_ptr<HostSum> Cluster::NewSum(Type type, int64_t n) {
  return std::make_unique<Sum>(this, kernels_[static_cast<int>(type)].get(),
                               server_->NextKey(), DataTypeOf(type), n);
}

void Cluster::Fail(const std::string& why) {
  {
    absl::MutexLock lock(&mu_);
    if (!error_.empty()) return;
    error_ = why;
  }
  server_->executor()->StartAbort(absl::UnavailableError(absl::StrCat(kOurs, why)));
}

std::string Cluster::error() const {
  absl::MutexLock lock(&mu_);
  return error_;
}

}  // namespace tensorbow
