// An accelerator for tests: its memory is the host's, and its device is "CPU:1". With
// it, tests execute everything but the GPU's own code: tasks in two parts, feeds and
// fetches through the device, replicas copied in and out, recorded tasks.
//
// As on a GPU, a download is complete only when Finish() is called. Work enqueued while
// the device records is not executed. A replay works on the recorded addresses,
// whatever variables and tensors are there now.
#ifndef TENSORBOW_TESTS_CC_EMULATED_DEVICE_H_
#define TENSORBOW_TESTS_CC_EMULATED_DEVICE_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/device/accelerator.h"
#include "cc/device/cpu/learner_cpu_device.h"
#include "cc/device/recorded_ops.h"
#include "cc/memory/learner_allocator.h"
#include "cc/memory/learners_that_fit.h"
#include "cc/memory/memory_share.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

// The choices and counts of tests, for all emulated devices.
struct Emulation {
  int num_devices = 1;
  int64_t limit_bytes = int64_t{1} << 40;
  bool records_waits = false;
  bool reduces_on_host = false;  // argument of the last averages
  std::string unrecordable;      // the name of an op that breaks recordings
  std::map<int, std::atomic<int64_t>> held_bytes;  // by device
  std::atomic<int> uploads{0}, downloads{0}, recordings{0}, replays{0};
};

inline Emulation& TheEmulation() {
  static auto* const emulation = new Emulation;
  return *emulation;
}

// Host memory that can be saved and restored as a whole.
class EmulatedRegions : public tsl::SubAllocator {
 public:
  using Held = std::map<char*, size_t>;
  EmulatedRegions(std::shared_ptr<Held> held, int ordinal)
      : SubAllocator({}, {}),
        regions_(HostRegions()),
        held_(std::move(held)),
        held_bytes_(TheEmulation().held_bytes[ordinal]) {}
  void* Alloc(size_t alignment, size_t size_bytes, size_t* received) override {
    void* const region = regions_->Alloc(alignment, size_bytes, received);
    if (region == nullptr) return nullptr;
    (*held_)[static_cast<char*>(region)] = *received;
    held_bytes_ += *received;
    return region;
  }
  void Free(void* region, size_t size_bytes) override {
    held_bytes_ -= (*held_)[static_cast<char*>(region)];
    held_->erase(static_cast<char*>(region));
    regions_->Free(region, size_bytes);
  }
  bool SupportsCoalescing() const override { return false; }

 private:
  const std::unique_ptr<tsl::SubAllocator> regions_;
  const std::shared_ptr<Held> held_;
  std::atomic<int64_t>& held_bytes_;  // of the device
};

// A tensor at an address that it does not own.
class AtAddress : public tensorflow::TensorBuffer {
 public:
  AtAddress(void* data, size_t size) : TensorBuffer(data), size_(size) {}
  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription*) const override {}
  bool OwnsMemory() const override { return false; }

 private:
  const size_t size_;
};

inline tensorflow::Tensor TensorAt(const tensorflow::Tensor& like) {
  if (!tensorflow::DataTypeCanUseMemcpy(like.dtype())) return like;
  auto* const buffer = new AtAddress(like.data(), like.TotalBytes());
  tensorflow::Tensor tensor(like.dtype(), like.shape(), buffer);
  buffer->Unref();
  return tensor;
}

// One kernel that a replay executes again.
class RecordedKernel {
 public:
  RecordedKernel(tensorflow::OpKernel* kernel, tensorflow::OpKernelContext* context)
      : kernel_(kernel) {
    for (int i = 0; i < context->num_inputs(); ++i) {
      const bool is_ref = tensorflow::IsRefType(context->input_dtype(i));
      mutexes_.push_back(is_ref ? context->input_ref_mutex(i) : nullptr);
      inputs_.push_back(
          TensorAt(is_ref ? context->mutable_input(i, false) : context->input(i)));
    }
  }
  // Is called after the kernel.
  void Made(tensorflow::OpKernelContext* context) {
    for (int i = 0; i < context->num_outputs(); ++i) {
      const bool value = context->mutable_output(i) != nullptr &&
                         !tensorflow::IsRefType(context->expected_output_dtype(i));
      outputs_.emplace_back();
      if (value) outputs_.back() = TensorAt(*context->mutable_output(i));
    }
  }

  absl::Status Execute(tensorflow::Device* device) {
    std::vector<tensorflow::Tensor> held = inputs_;  // prevents overwriting in place
    std::vector<tensorflow::TensorValue> values;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values.push_back(mutexes_[i] == nullptr
                           ? tensorflow::TensorValue(&inputs_[i])
                           : tensorflow::TensorValue(mutexes_[i], &inputs_[i]));
    }
    const std::vector<tensorflow::AllocatorAttributes> attributes(
        std::max(inputs_.size(), outputs_.size()) + 1);
    tensorflow::OpKernelContext::Params params;
    params.op_kernel = kernel_;
    params.device = device;
    params.resource_manager = device->resource_manager();
    params.inputs = values;
    params.input_alloc_attrs =
        absl::MakeConstSpan(attributes).subspan(0, values.size());
    params.output_attr_array = attributes.data();
    params.frame_iter = tensorflow::FrameAndIter(0, 0);
    tensorflow::OpKernelContext context(&params);
    kernel_->Compute(&context);
    TF_RETURN_IF_ERROR(context.status());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      tensorflow::Tensor* const made = context.mutable_output(static_cast<int>(i));
      if (!outputs_[i].has_value() ||
          !tensorflow::DataTypeCanUseMemcpy(made->dtype()) ||
          made->data() == outputs_[i]->data()) {
        continue;
      }
      std::memcpy(outputs_[i]->data(), made->data(), made->TotalBytes());
    }
    return absl::OkStatus();
  }

 private:
  tensorflow::OpKernel* const kernel_;
  std::vector<tensorflow::mutex*> mutexes_;  // of reference inputs
  std::vector<tensorflow::Tensor> inputs_;
  std::vector<std::optional<tensorflow::Tensor>> outputs_;  // outputs that are values
};

class EmulatedDevice : public tensorflow::Device, public AcceleratorDevice {
 public:
  EmulatedDevice(tensorflow::Device* host, int learner, int ordinal = 0)
      : Device(tensorflow::Env::Default(), Attributes(*host)),
        AcceleratorDevice(learner),
        ordinal_(ordinal),
        free_bytes_(TheEmulation().limit_bytes - TheEmulation().held_bytes[ordinal]),
        like_(learner, host, &completions_) {}
  ~EmulatedDevice() override { End(); }

  void Begin(int learners, int64_t bytes) override {
    share_ = std::make_shared<MemoryShare>(bytes / learners);
    allocator_ = New(AllocatorName(learner(), learners, bytes), memory_);
    like_.Begin(allocator_.get(), LearnerThreads());
    set_tensorflow_cpu_worker_threads(
        const_cast<CpuWorkerThreads*>(like_.tensorflow_cpu_worker_threads()));
    set_eigen_cpu_device(
        const_cast<Eigen::ThreadPoolDevice*>(like_.eigen_cpu_device()));
  }
  void End() override {
    slots_.clear();
    if (allocator_ == nullptr) return;
    like_.End();
    allocator_.reset();
  }
  std::string Description() override { return "emulated"; }
  tensorflow::Device* device() override { return this; }
  int ordinal() const override { return ordinal_; }
  void* stream() override { return nullptr; }
  absl::Status CopyIn(const tensorflow::Tensor& host,
                      tensorflow::Tensor* on_device) override {
    return Copy(host, on_device);
  }
  absl::Status CopyOut(const tensorflow::Tensor& on_device,
                       tensorflow::Tensor* host) override {
    return Copy(on_device, host);
  }
  absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) override {
    if (from.TotalBytes() != to->TotalBytes()) {
      return absl::InternalError("copy between tensors of different size");
    }
    const auto copy = [source = from.data(), target = to->data(),
                       size = from.TotalBytes()](tensorflow::Device*) {
      std::memcpy(target, source, size);
      return absl::OkStatus();
    };
    if (recording_ == nullptr) return copy(this);
    recording_->work.push_back(copy);
    return absl::OkStatus();
  }
  absl::Status Upload(int feed, const tensorflow::Tensor& host,
                      tensorflow::Tensor* on_device) override {
    ++TheEmulation().uploads;
    *on_device = tensorflow::Tensor(allocator_.get(), host.dtype(), host.shape());
    if (!on_device->IsInitialized()) {
      return absl::ResourceExhaustedError("No memory for a feed in " +
                                          allocator_->Name());
    }
    return Copy(host, on_device);
  }
  absl::Status Download(const tensorflow::Tensor& on_device,
                        tensorflow::Tensor* host) override {
    ++TheEmulation().downloads;
    *host = tensorflow::Tensor(on_device.dtype(), on_device.shape());
    std::memset(host->data(), 0xff, host->TotalBytes());
    // Copies the present value, which a replay may overwrite.
    slots_.emplace_back(tensorflow::tensor::DeepCopy(on_device), *host);
    return absl::OkStatus();
  }
  absl::Status EndTask() override { return absl::OkStatus(); }
  absl::Status Finish() override {
    for (auto& [from, to] : slots_) TF_RETURN_IF_ERROR(Copy(from, &to));
    slots_.clear();
    return absl::OkStatus();
  }

  struct Kernels : Recording {
    std::shared_ptr<EmulatedRegions::Held> regions =
        std::make_shared<EmulatedRegions::Held>();
    LearnerAllocator::Owner memory;
    std::vector<std::function<absl::Status(tensorflow::Device*)>> work;
  };
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) override {
    ++TheEmulation().recordings;
    auto made = std::make_unique<Kernels>();
    made->memory = New("recording", made->regions);
    std::map<char*, std::string> before;
    for (const auto& [region, size] : *memory_) {
      before[region] = std::string(region, size);
    }
    recording_ = made.get();
    ops_.Begin();
    const absl::Status enqueued = enqueue();
    recording_ = nullptr;
    const std::string obstacle = ops_.End();
    // Nothing has been computed.
    for (const auto& [region, content] : before) {
      std::memcpy(region, content.data(), content.size());
    }
    for (const auto& [region, size] : *made->regions) std::memset(region, 0xff, size);
    if (!obstacle.empty()) return absl::UnimplementedError(obstacle);
    TF_RETURN_IF_ERROR(enqueued);
    return made;
  }
  absl::Status Replay(Recording* recording) override {
    ++TheEmulation().replays;
    for (const auto& work : static_cast<Kernels*>(recording)->work) {
      TF_RETURN_IF_ERROR(work(this));
    }
    return absl::OkStatus();
  }
  bool records_waits() const override { return TheEmulation().records_waits; }
  int64_t PeakBytes() override { return allocator_->GetStats()->peak_bytes_in_use; }
  int64_t LimitBytes() override { return free_bytes_; }

  tensorflow::ResourceMgr* resource_manager() override {
    return like_.resource_manager();
  }
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override {
    return recording_ != nullptr ? recording_->memory.get() : allocator_.get();
  }
  void Compute(tensorflow::OpKernel* kernel,
               tensorflow::OpKernelContext* context) override {
    // The results of these ops exist before the task and stay.
    static const auto* const kept =
        new std::set<std::string>({"_Arg", "_DeviceArg", "_Retval", "Const",
                                   "VarHandleOp", "VariableV2", "NoOp"});
    if (recording_ == nullptr || kept->count(kernel->type_string()) > 0) {
      kernel->Compute(context);
      return CheckVariable(*kernel, context);
    }
    auto recorded = std::make_shared<RecordedKernel>(kernel, context);
    kernel->Compute(context);
    if (kernel->name() == TheEmulation().unrecordable) ops_.Fail(*kernel, context);
    if (!context->status().ok()) return;
    if (kernel->type_string() == "AssignVariableOp") return RecordAssignment(context);
    recorded->Made(context);
    recording_->work.push_back(
        [recorded](tensorflow::Device* device) { return recorded->Execute(device); });
  }
  void ComputeAsync(tensorflow::AsyncOpKernel* kernel,
                    tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done) override {
    if (ops_.Refuse(*kernel, context, done)) return;
    kernel->ComputeAsync(context, std::move(done));
  }
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   tensorflow::AllocatorAttributes attributes,
                                   tensorflow::Tensor* tensor) override {
    return like_.MakeTensorFromProto(proto, attributes, tensor);
  }
  void CopyTensorInSameDevice(const tensorflow::Tensor* input,
                              tensorflow::Tensor* output,
                              const tensorflow::DeviceContext* context,
                              tensorflow::StatusCallback done) override {
    like_.CopyTensorInSameDevice(input, output, context, std::move(done));
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  // Records what an assignment does on a device: nothing if the variable has become the
  // value, else a copy.
  void RecordAssignment(tensorflow::OpKernelContext* context) {
    tensorflow::core::RefCountPtr<tensorflow::Var> variable;
    OP_REQUIRES_OK(
        context,
        LookupResource(context, tensorflow::HandleFromInput(context, 0), &variable));
    tensorflow::Tensor* const tensor = variable->tensor();
    if (tensor->data() == context->input(1).data()) return;
    OP_REQUIRES_OK(context, Copy(context->input(1), tensor));
  }
  // Fails if a variable is in host memory, where a GPU cannot read it.
  void CheckVariable(const tensorflow::OpKernel& kernel,
                     tensorflow::OpKernelContext* context) const {
    if (kernel.type_string() != "ReadVariableOp" || !context->status().ok()) return;
    const tensorflow::Tensor& value = *context->mutable_output(0);
    if (!tensorflow::DataTypeCanUseMemcpy(value.dtype()) || value.TotalBytes() == 0) {
      return;
    }
    auto region = memory_->upper_bound(static_cast<char*>(value.data()));
    const bool here = region != memory_->begin() &&
                      static_cast<char*>(value.data()) <
                          std::prev(region)->first + std::prev(region)->second;
    OP_REQUIRES(context, here,
                absl::InternalError(absl::StrCat("The variable that ", kernel.name(),
                                                 " reads is not on its device")));
  }
  static tensorflow::DeviceAttributes Attributes(const tensorflow::Device& host) {
    tensorflow::DeviceNameUtils::ParsedName name = host.parsed_name();
    name.id = 1;
    return tensorflow::Device::BuildDeviceAttributes(
        tensorflow::DeviceNameUtils::ParsedNameToString(name), tensorflow::DEVICE_CPU,
        tensorflow::Bytes(1 << 30), tensorflow::DeviceLocality(), "emulated");
  }
  LearnerAllocator::Owner New(const std::string& name,
                              std::shared_ptr<EmulatedRegions::Held> held) const {
    return LearnerAllocator::New(
        name, share_->limit_bytes(),
        RegionsWithin(share_,
                      std::make_unique<EmulatedRegions>(std::move(held), ordinal_)),
        /*returns_unused=*/false);
  }

  const int ordinal_;
  const int64_t free_bytes_;     // when it was made
  CompletionQueue completions_;  // stays empty: kernels are executed at once
  std::shared_ptr<MemoryShare> share_;
  const std::shared_ptr<EmulatedRegions::Held> memory_ =
      std::make_shared<EmulatedRegions::Held>();
  LearnerAllocator::Owner allocator_;
  LearnerCpuDevice like_;
  std::vector<std::pair<tensorflow::Tensor, tensorflow::Tensor>> slots_;
  Kernels* recording_ = nullptr;  // the recording being made
  RecordedOps ops_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_EMULATED_DEVICE_H_
