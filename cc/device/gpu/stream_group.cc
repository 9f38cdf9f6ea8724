#include "cc/device/gpu/stream_group.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "xla/stream_executor/cuda/cuda_executor.h"
#include "xla/stream_executor/gpu/gpu_init.h"
#include "xla/stream_executor/platform.h"

namespace tensorbow {

namespace tf = ::tensorflow;
namespace se = ::stream_executor;

namespace {

// A model of its own for every executor. TensorFlow caches convolution algorithms by
// GPU and model, with plans that are bound to one cuDNN handle.
class LearnerExecutor : public se::gpu::CudaExecutor {
 public:
  LearnerExecutor(se::Platform* platform, int ordinal, int number)
      : CudaExecutor(platform, ordinal, se::gpu::CollectiveAllocatorType::kNccl),
        number_(number) {}

  absl::StatusOr<std::unique_ptr<se::DeviceDescription>> CreateDeviceDescription()
      const override {
    TF_ASSIGN_OR_RETURN(std::unique_ptr<se::DeviceDescription> description,
                        CudaExecutor::CreateDeviceDescription(device_ordinal()));
    description->set_model_str(
        absl::StrCat(description->model_str(), " learner ", number_));
    return description;
  }

 private:
  const int number_;
};

class Pool {
 public:
  absl::StatusOr<StreamGroup*> Take(int ordinal, const tf::GPUOptions& options) {
    absl::MutexLock lock(&mu_);
    std::vector<StreamGroup*>& free = free_[ordinal];
    if (free.empty()) return New(ordinal, options);
    StreamGroup* const group = free.back();
    free.pop_back();
    return group;
  }

  void Return(StreamGroup* group) {
    absl::MutexLock lock(&mu_);
    free_[group->ordinal].push_back(group);
  }

 private:
  absl::StatusOr<StreamGroup*> New(int ordinal, const tf::GPUOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    TF_RETURN_IF_ERROR(se::ValidateGPUMachineManager());
    se::Platform* const platform = se::GPUMachineManager();
    // Makes the primary context.
    TF_RETURN_IF_ERROR(platform->ExecutorForDevice(ordinal).status());
    auto group = std::make_unique<StreamGroup>();
    group->ordinal = ordinal;
    group->executor = std::make_unique<LearnerExecutor>(platform, ordinal, number_++);
    TF_RETURN_IF_ERROR(group->executor->Init());
    const std::pair<std::unique_ptr<se::Stream>*, const char*> streams[] = {
        {&group->compute, "compute"},
        {&group->host_to_device, "host to device"},
        {&group->device_to_host, "device to host"},
        {&group->device_to_device, "device to device"}};
    for (const auto& [stream, name] : streams) {
      TF_ASSIGN_OR_RETURN(*stream, group->executor->CreateStream());
      (*stream)->SetName(name);
    }
    group->events =
        tf::EventMgrFactory::Singleton()->GetEventMgr(group->executor.get(), options);
    return group.release();
  }

  absl::Mutex mu_;
  int number_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, std::vector<StreamGroup*>> free_ ABSL_GUARDED_BY(mu_);
};

Pool& ThePool() {
  static auto* const pool = new Pool;
  return *pool;
}

}  // namespace

void ReturnToPool::operator()(StreamGroup* group) const { ThePool().Return(group); }

absl::StatusOr<StreamGroupHandle> TakeStreamGroup(int ordinal,
                                                  const tf::GPUOptions& options) {
  TF_ASSIGN_OR_RETURN(StreamGroup* const group, ThePool().Take(ordinal, options));
  return StreamGroupHandle(group);
}

int NumGpus() {
  if (!se::ValidateGPUMachineManager().ok()) return 0;
  return std::max(0, se::GPUMachineManager()->VisibleDeviceCount());  // -1 without GPUs
}

}  // namespace tensorbow
