// The GPU device of one learner: a stream group, a BFC allocator of its own and
// page-locked host memory.
//
// The allocator and those of the learner's recordings stay within the learner's share
// of the GPU's memory together. Tensors may outlive the device.
//
// All learners' devices have the same name, "GPU:0" of the session's task, on any GPU.
// So one placed graph fits all. They share the session's resource manager, as their CPU
// devices do. See accelerator.h for the order of calls.
#ifndef TENSORBOW_CC_DEVICE_GPU_LEARNER_GPU_DEVICE_H_
#define TENSORBOW_CC_DEVICE_GPU_LEARNER_GPU_DEVICE_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cc/device/accelerator.h"
#include "cc/device/gpu/cuda_event.h"
#include "cc/device/gpu/stream_group.h"
#include "cc/device/recorded_ops.h"
#include "cc/memory/learner_allocator.h"
#include "cc/memory/memory_share.h"
#include "tensorflow/core/common_runtime/gpu_device_context.h"
#include "tensorflow/core/common_runtime/local_device.h"

namespace tensorbow {

class LearnerGpuDevice : public tensorflow::LocalDevice, public AcceleratorDevice {
 public:
  // Makes the device of `learner`. `host`: the session's CPU. `shared_bytes`: the limit
  // of all learners on the GPU together.
  static absl::StatusOr<std::unique_ptr<LearnerGpuDevice>> New(
      const tensorflow::SessionOptions& options, tensorflow::Device* host, int ordinal,
      int learner, int64_t shared_bytes);
  ~LearnerGpuDevice() override;

  void* compute_stream() const;  // a cudaStream_t

  // AcceleratorDevice
  void Begin(int learners, int64_t bytes) override;
  void End() override;
  std::string Description() override;
  tensorflow::Device* device() override { return this; }
  int ordinal() const override { return streams_->ordinal; }
  void* stream() override { return compute_stream(); }
  absl::Status CopyIn(const tensorflow::Tensor& host,
                      tensorflow::Tensor* on_device) override;
  absl::Status CopyOut(const tensorflow::Tensor& on_device,
                       tensorflow::Tensor* host) override;
  absl::Status Upload(int feed, const tensorflow::Tensor& host,
                      tensorflow::Tensor* on_device) override;
  absl::Status Download(const tensorflow::Tensor& on_device,
                        tensorflow::Tensor* host) override;
  absl::Status EndTask() override;
  absl::Status Finish() override;
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) override;
  absl::Status Replay(Recording* recording) override;
  bool records_waits() const override { return records_waits_; }
  absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) override;
  int64_t PeakBytes() override;
  int64_t LimitBytes() override { return shared_bytes_; }

  // tensorflow::Device
  tensorflow::ResourceMgr* resource_manager() override { return resources_; }
  tensorflow::Allocator* GetAllocator(
      tensorflow::AllocatorAttributes attributes) override;
  void Compute(tensorflow::OpKernel* kernel,
               tensorflow::OpKernelContext* context) override;
  void ComputeAsync(tensorflow::AsyncOpKernel* kernel,
                    tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done) override;
  absl::Status Sync() override;
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   tensorflow::AllocatorAttributes attributes,
                                   tensorflow::Tensor* tensor) override;
  void CopyTensorInSameDevice(const tensorflow::Tensor* input,
                              tensorflow::Tensor* output,
                              const tensorflow::DeviceContext* context,
                              tensorflow::StatusCallback done) override;
  tensorflow::PerOpGpuDevice* MakeGpuDevice() override;
  absl::Status ReinitializeGpuDevice(tensorflow::OpKernelContext* context,
                                     tensorflow::PerOpGpuDevice* device,
                                     tensorflow::DeviceContext* device_context,
                                     tensorflow::Allocator* allocator) override;
  absl::Status TryGetDeviceContext(tensorflow::DeviceContext** context) override;

 private:
  class GpuRecording;

  // The value of a feed while two tasks are under way.
  struct FeedSlot {
    tensorflow::Tensor pinned;
    tensorflow::Tensor on_device;
  };

  LearnerGpuDevice(const tensorflow::SessionOptions& options,
                   const tensorflow::DeviceAttributes& attributes,
                   tensorflow::Device* host, int learner, StreamGroupHandle streams,
                   tensorflow::Allocator* pinned, int64_t shared_bytes);
  absl::Status Start();
  LearnerAllocator::Owner NewAllocator(const std::string& name,
                                       bool returns_unused) const;

  tensorflow::ResourceMgr* const resources_;     // the session's
  tensorflow::Allocator* const host_allocator_;  // for pageable memory
  tensorflow::Allocator* const pinned_allocator_;
  const int64_t shared_bytes_;
  bool records_waits_ = false;
  StreamGroupHandle streams_;
  std::shared_ptr<MemoryShare> share_;  // set from Begin() to End(), as is the next
  LearnerAllocator::Owner allocator_;
  tensorflow::GPUDeviceContext* context_ = nullptr;  // owns a reference
  std::unique_ptr<AcceleratorDeviceInfo> info_;
  stream_executor::DeviceAddressBase scratch_;  // for Eigen

  int64_t task_ = 0;                    // the number of the current task
  std::array<CudaEvent, 2> task_done_;  // by task modulo 2
  std::array<std::vector<FeedSlot>, 2> feeds_;
  std::vector<tensorflow::Tensor> downloading_;  // kept alive until Finish()

  GpuRecording* recording_ = nullptr;  // the recording that is being made
  RecordedOps recorded_ops_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_DEVICE_GPU_LEARNER_GPU_DEVICE_H_
