#include "cc/device/gpu/learner_gpu_device.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cc/device/gpu/captured_waits.h"
#include "cc/device/gpu/cuda_graph.h"
#include "cc/device/gpu/cuda_stream.h"
#include "cc/device/gpu/eigen_stream.h"
#include "cc/memory/learners_that_fit.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/common_runtime/gpu/gpu_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "xla/stream_executor/integrations/device_mem_allocator.h"
#include "xla/stream_executor/integrations/stream_executor_allocator.h"
#include "xla/tsl/framework/bfc_allocator.h"

namespace tensorbow {

namespace tf = ::tensorflow;
namespace se = ::stream_executor;

namespace {

// The limit of page-locked host memory, which belongs to the process: a tensor in it
// may outlive any session.
constexpr size_t kPinnedBytes = size_t{16} << 30;

absl::StatusOr<tf::Allocator*> PinnedAllocator(se::StreamExecutor* executor) {
  static absl::Mutex mu;
  static tf::Allocator* allocator = nullptr;
  absl::MutexLock lock(&mu);
  if (allocator == nullptr) {
    TF_ASSIGN_OR_RETURN(auto memory,
                        executor->CreateMemoryAllocator(se::MemorySpace::kHost));
    tsl::BFCAllocator::Options options;
    options.allow_growth = true;
    allocator = new tsl::BFCAllocator(std::make_unique<se::StreamExecutorAllocator>(
                                          std::move(memory), se::MemorySpace::kHost, 0),
                                      kPinnedBytes, "tensorbow_pinned", options);
  }
  return allocator;
}

absl::Status AsStatus(const CudaError& error) {
  return error.empty() ? absl::OkStatus() : absl::InternalError(error);
}

se::DeviceAddressBase AddressOf(const tf::Tensor& tensor) {
  return se::DeviceAddressBase(tensor.data(), tensor.TotalBytes());
}

// Gives `tensor` this type and shape; keeps the present one if it can be overwritten.
// `*fresh`: whether it is a new one.
absl::Status Prepare(tf::Allocator* allocator, const tf::Tensor& like,
                     tf::Tensor* tensor, bool* fresh) {
  *fresh = !tensor->IsInitialized() || tensor->dtype() != like.dtype() ||
           tensor->shape() != like.shape() || !tensor->RefCountIsOne();
  if (!*fresh) return absl::OkStatus();
  *tensor = tf::Tensor();  // returns its memory first
  tf::Tensor made(allocator, like.dtype(), like.shape());
  if (!made.IsInitialized()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("No memory for a tensor of shape ", like.shape().DebugString(),
                     " in allocator ", allocator->Name()));
  }
  *tensor = std::move(made);
  return absl::OkStatus();
}

}  // namespace

// A recording whose tensors lie in memory that nothing else uses. The memory is kept as
// long as a launch may use it.
class LearnerGpuDevice::GpuRecording : public AcceleratorDevice::Recording {
 public:
  GpuRecording(int ordinal, LearnerAllocator::Owner memory)
      : ordinal_(ordinal), memory_(std::move(memory)) {}
  ~GpuRecording() override {
    const CudaDeviceGuard guard(ordinal_);
    graph_ = CudaGraph();
  }

  CudaGraph* graph() { return &graph_; }
  tf::Allocator* memory() { return memory_.get(); }

 private:
  const int ordinal_;
  CudaGraph graph_;
  const LearnerAllocator::Owner memory_;
};

// --------------------------------------------------------------------- lifecycle

absl::StatusOr<std::unique_ptr<LearnerGpuDevice>> LearnerGpuDevice::New(
    const tf::SessionOptions& options, tf::Device* host, int ordinal, int learner,
    int64_t shared_bytes) {
  TF_ASSIGN_OR_RETURN(StreamGroupHandle streams,
                      TakeStreamGroup(ordinal, options.config.gpu_options()));
  TF_ASSIGN_OR_RETURN(tf::Allocator* const pinned,
                      PinnedAllocator(streams->executor.get()));
  tf::DeviceNameUtils::ParsedName name = host->parsed_name();
  name.type = tf::DEVICE_GPU;
  name.id = 0;
  const tf::DeviceAttributes attributes = tf::Device::BuildDeviceAttributes(
      tf::DeviceNameUtils::ParsedNameToString(name), tf::DEVICE_GPU,
      tf::Bytes(shared_bytes), tf::DeviceLocality(), "TensorBow learner");
  std::unique_ptr<LearnerGpuDevice> device(new LearnerGpuDevice(
      options, attributes, host, learner, std::move(streams), pinned, shared_bytes));
  TF_RETURN_IF_ERROR(device->Start());
  return device;
}

LearnerGpuDevice::LearnerGpuDevice(const tf::SessionOptions& options,
                                   const tf::DeviceAttributes& attributes,
                                   tf::Device* host, int learner,
                                   StreamGroupHandle streams, tf::Allocator* pinned,
                                   int64_t shared_bytes)
    : LocalDevice(options, attributes),
      AcceleratorDevice(learner),
      resources_(host->resource_manager()),
      host_allocator_(host->GetAllocator({})),
      pinned_allocator_(pinned),
      shared_bytes_(shared_bytes),
      streams_(std::move(streams)) {}

absl::Status LearnerGpuDevice::Start() {
  int driver = 0;
  TF_RETURN_IF_ERROR(AsStatus(DriverVersion(&driver)));
  records_waits_ = EventsHavePassed(EventsPassedFile(), driver);
  context_ = new tf::GPUDeviceContext(
      /*stream_id=*/0, streams_->compute.get(), streams_->host_to_device.get(),
      streams_->device_to_host.get(), {streams_->device_to_device.get()},
      pinned_allocator_);
  info_ = std::make_unique<AcceleratorDeviceInfo>();
  info_->stream = streams_->compute.get();
  info_->default_context = context_;
  info_->event_mgr = streams_->events;
  info_->gpu_id = ordinal();
  set_tensorflow_accelerator_device_info(info_.get());

  scratch_ = streams_->executor->Allocate(EigenScratchBytes());
  if (scratch_.is_null()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("No memory on GPU ", ordinal(), " for learner ", learner()));
  }
  return streams_->executor->SynchronousMemZero(&scratch_, EigenScratchBytes());
}

void LearnerGpuDevice::Begin(int learners, int64_t bytes) {
  share_ = std::make_shared<MemoryShare>(bytes / learners);
  allocator_ = NewAllocator(AllocatorName(learner(), learners, bytes),
                            /*returns_unused=*/true);
}

void LearnerGpuDevice::End() {
  Finish().IgnoreError();
  for (auto& slots : feeds_) slots.clear();
  allocator_.reset();
  share_.reset();
}

LearnerGpuDevice::~LearnerGpuDevice() {
  End();
  if (!scratch_.is_null()) streams_->executor->Deallocate(&scratch_);
  if (context_ != nullptr) context_->Unref();
  const CudaDeviceGuard guard(ordinal());
  for (CudaEvent& event : task_done_) event = CudaEvent();
}

LearnerAllocator::Owner LearnerGpuDevice::NewAllocator(const std::string& name,
                                                       bool returns_unused) const {
  return LearnerAllocator::New(
      name, share_->limit_bytes(),
      RegionsWithin(share_,
                    std::make_unique<se::DeviceMemAllocator>(
                        streams_->executor.get(), tsl::PlatformDeviceId(ordinal()))),
      returns_unused);
}

std::string LearnerGpuDevice::Description() {
  const auto handle = [](const void* pointer) {
    return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(pointer)));
  };
  return absl::StrCat("GPU ", ordinal(), ": stream ", handle(compute_stream()),
                      ", cuDNN ", handle(streams_->executor->AsDnn()), ", cuBLAS ",
                      handle(streams_->executor->AsBlas()), ", allocator ",
                      handle(allocator_.get()),
                      records_waits_ ? "" : ", waits outside CUDA graphs");
}

void* LearnerGpuDevice::compute_stream() const {
  return streams_->compute->platform_specific_handle().stream;
}

// ------------------------------------------------------------------------- tasks

absl::Status LearnerGpuDevice::CopyIn(const tf::Tensor& host, tf::Tensor* on_device) {
  // The memory may have belonged to another tensor, which enqueued work still uses.
  TF_RETURN_IF_ERROR(streams_->compute->BlockHostUntilDone());
  se::DeviceAddressBase to = AddressOf(*on_device);
  return streams_->executor->SynchronousMemcpy(&to, host.data(), host.TotalBytes());
}

absl::Status LearnerGpuDevice::CopyOut(const tf::Tensor& on_device, tf::Tensor* host) {
  TF_RETURN_IF_ERROR(streams_->compute->BlockHostUntilDone());
  return streams_->executor->SynchronousMemcpy(host->data(), AddressOf(on_device),
                                               on_device.TotalBytes());
}

absl::Status LearnerGpuDevice::Copy(const tf::Tensor& from, tf::Tensor* to) {
  if (from.TotalBytes() == 0) return absl::OkStatus();
  se::DeviceAddressBase address = AddressOf(*to);
  return streams_->compute->Memcpy(&address, AddressOf(from), from.TotalBytes());
}

absl::Status LearnerGpuDevice::Upload(int feed, const tf::Tensor& host,
                                      tf::Tensor* on_device) {
  std::vector<FeedSlot>& slots = feeds_[task_ % 2];
  if (feed >= static_cast<int>(slots.size())) slots.resize(feed + 1);
  FeedSlot& slot = slots[feed];
  // The slot is free: the task that used it, two before this one, is done.
  bool fresh = false;
  TF_RETURN_IF_ERROR(Prepare(pinned_allocator_, host, &slot.pinned, &fresh));
  TF_RETURN_IF_ERROR(Prepare(allocator_.get(), host, &slot.on_device, &fresh));
  se::Stream* const stream = streams_->host_to_device.get();
  if (fresh) TF_RETURN_IF_ERROR(stream->WaitFor(streams_->compute.get()));
  if (host.TotalBytes() > 0) {
    std::memcpy(slot.pinned.data(), host.data(), host.TotalBytes());
    se::DeviceAddressBase to = AddressOf(slot.on_device);
    TF_RETURN_IF_ERROR(stream->Memcpy(&to, slot.pinned.data(), host.TotalBytes()));
    TF_RETURN_IF_ERROR(streams_->compute->WaitFor(stream));
  }
  *on_device = slot.on_device;
  return absl::OkStatus();
}

absl::Status LearnerGpuDevice::Download(const tf::Tensor& on_device, tf::Tensor* host) {
  tf::Tensor made(pinned_allocator_, on_device.dtype(), on_device.shape());
  if (!made.IsInitialized()) {
    return absl::ResourceExhaustedError("No page-locked memory for a fetched tensor");
  }
  if (on_device.TotalBytes() > 0) {
    se::Stream* const stream = streams_->device_to_host.get();
    TF_RETURN_IF_ERROR(stream->WaitFor(streams_->compute.get()));
    TF_RETURN_IF_ERROR(
        stream->Memcpy(made.data(), AddressOf(on_device), on_device.TotalBytes()));
    downloading_.push_back(on_device);
    // Waits, since a replay overwrites its previous results.
    TF_RETURN_IF_ERROR(streams_->compute->WaitFor(stream));
  }
  *host = std::move(made);
  return absl::OkStatus();
}

absl::Status LearnerGpuDevice::EndTask() {
  {
    const CudaDeviceGuard guard(ordinal());
    TF_RETURN_IF_ERROR(AsStatus(guard.error()));
    TF_RETURN_IF_ERROR(AsStatus(task_done_[task_ % 2].Record(compute_stream())));
  }
  ++task_;
  return AsStatus(task_done_[task_ % 2].Synchronise());
}

absl::Status LearnerGpuDevice::Finish() {
  absl::Status status;
  for (se::Stream* stream : {streams_->host_to_device.get(), streams_->compute.get(),
                             streams_->device_to_host.get()}) {
    status.Update(stream->BlockHostUntilDone());
  }
  downloading_.clear();
  return status;
}

// --------------------------------------------------------------------- recording

absl::StatusOr<std::unique_ptr<AcceleratorDevice::Recording>> LearnerGpuDevice::Record(
    const std::function<absl::Status()>& enqueue) {
  TF_RETURN_IF_ERROR(Finish());
  auto recording = std::make_unique<GpuRecording>(
      ordinal(), NewAllocator(absl::StrCat("tensorbow_recording_", learner()),
                              /*returns_unused=*/false));
  const CudaDeviceGuard guard(ordinal());
  TF_RETURN_IF_ERROR(AsStatus(guard.error()));
  TF_RETURN_IF_ERROR(AsStatus(recording->graph()->Begin(compute_stream())));
  recording_ = recording.get();
  recorded_ops_.Begin();
  const absl::Status enqueued = enqueue();
  recording_ = nullptr;
  const std::string obstacle = recorded_ops_.End();
  const CudaError ended = recording->graph()->End(compute_stream());
  if (!obstacle.empty()) return absl::UnimplementedError(obstacle);
  TF_RETURN_IF_ERROR(enqueued);
  TF_RETURN_IF_ERROR(AsStatus(ended));
  return recording;
}

absl::Status LearnerGpuDevice::Replay(Recording* recording) {
  const CudaDeviceGuard guard(ordinal());
  TF_RETURN_IF_ERROR(AsStatus(guard.error()));
  return AsStatus(
      static_cast<GpuRecording*>(recording)->graph()->Launch(compute_stream()));
}

int64_t LearnerGpuDevice::PeakBytes() {
  const auto stats = allocator_->GetStats();
  return stats.has_value() ? stats->peak_bytes_in_use : 0;
}

// ------------------------------------------------------------ tensorflow::Device

tf::Allocator* LearnerGpuDevice::GetAllocator(tf::AllocatorAttributes attributes) {
  if (attributes.on_host()) {
    const bool pinned = attributes.gpu_compatible() || attributes.nic_compatible();
    return pinned ? pinned_allocator_ : host_allocator_;
  }
  return recording_ != nullptr ? recording_->memory() : allocator_.get();
}

void LearnerGpuDevice::Compute(tf::OpKernel* kernel, tf::OpKernelContext* context) {
  const auto activated = streams_->executor->Activate();
  kernel->Compute(context);
  if (!recorded_ops_.recording()) return;
  bool broken = false;
  const CudaError error = IsRecordingBroken(compute_stream(), &broken);
  if (broken || !error.empty()) recorded_ops_.Fail(*kernel, context);
}

void LearnerGpuDevice::ComputeAsync(tf::AsyncOpKernel* kernel,
                                    tf::OpKernelContext* context,
                                    tf::AsyncOpKernel::DoneCallback done) {
  if (recorded_ops_.Refuse(*kernel, context, done)) return;
  const auto activated = streams_->executor->Activate();
  kernel->ComputeAsync(context, std::move(done));
}

absl::Status LearnerGpuDevice::Sync() {
  return streams_->compute->BlockHostUntilDone();
}

absl::Status LearnerGpuDevice::MakeTensorFromProto(const tf::TensorProto& proto,
                                                   tf::AllocatorAttributes attributes,
                                                   tf::Tensor* tensor) {
  tf::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  on_host.set_gpu_compatible(true);
  tf::Tensor parsed(proto.dtype());
  if (!parsed.FromProto(GetAllocator(on_host), proto)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot parse tensor from proto: ", proto.ShortDebugString()));
  }
  if (attributes.on_host()) {
    *tensor = std::move(parsed);
    return absl::OkStatus();
  }
  if (!tf::DMAHelper::CanUseDMA(&parsed)) {
    return absl::InvalidArgumentError(absl::StrCat("GPUs have no tensors of type ",
                                                   tf::DataTypeString(parsed.dtype())));
  }
  tf::Tensor made(GetAllocator(attributes), parsed.dtype(), parsed.shape());
  if (!made.IsInitialized()) {
    return absl::ResourceExhaustedError("No memory for a constant");
  }
  if (parsed.TotalBytes() > 0) TF_RETURN_IF_ERROR(CopyIn(parsed, &made));
  *tensor = std::move(made);
  return absl::OkStatus();
}

void LearnerGpuDevice::CopyTensorInSameDevice(const tf::Tensor* input,
                                              tf::Tensor* output,
                                              const tf::DeviceContext* context,
                                              tf::StatusCallback done) {
  tf::GPUUtil::CopyGPUTensorToSameGPU(this, context, input, output, std::move(done));
}

tf::PerOpGpuDevice* LearnerGpuDevice::MakeGpuDevice() { return NewEigenDevice(); }

absl::Status LearnerGpuDevice::ReinitializeGpuDevice(tf::OpKernelContext*,
                                                     tf::PerOpGpuDevice* device,
                                                     tf::DeviceContext*,
                                                     tf::Allocator* allocator) {
  SetEigenStream(device, ordinal(), compute_stream(), allocator, scratch_.opaque());
  return absl::OkStatus();
}

absl::Status LearnerGpuDevice::TryGetDeviceContext(tf::DeviceContext** context) {
  context_->Ref();
  *context = context_;
  return absl::OkStatus();
}

}  // namespace tensorbow
