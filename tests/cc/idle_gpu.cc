// A GPU that executes nothing, for a machine without one: sessions place their
// learners' graphs on it and find out what keeps tasks from being recorded. Every task
// fails at its first op there. Compiled and loaded by recording_census_test.py.
//
// TensorFlow registers its kernels for GPUs on any machine. The library for GPUs is not
// built without CUDA, so that this one registers the kernels of its fused updates.
#include <memory>
#include <utility>
#include <vector>

#include "cc/device/accelerator.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "tensorflow/core/common_runtime/gpu/gpu_id_manager.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

absl::Status Idle() { return absl::UnavailableError("An idle GPU executes nothing"); }

class IdleGpu : public tf::Device, public AcceleratorDevice {
 public:
  IdleGpu(tf::Device* host, int learner)
      : Device(tf::Env::Default(), Attributes(*host)),
        AcceleratorDevice(learner),
        host_(host) {
    set_tensorflow_cpu_worker_threads(
        const_cast<CpuWorkerThreads*>(host->tensorflow_cpu_worker_threads()));
  }

  void Begin(int, int64_t) override {}
  void End() override {}
  std::string Description() override { return "idle"; }
  tf::Device* device() override { return this; }
  int ordinal() const override { return 0; }
  void* stream() override { return nullptr; }
  // The device's memory is the host's.
  absl::Status CopyIn(const tf::Tensor& host, tf::Tensor* on_device) override {
    return Copy(host, on_device);
  }
  absl::Status CopyOut(const tf::Tensor& on_device, tf::Tensor* host) override {
    return Copy(on_device, host);
  }
  absl::Status Copy(const tf::Tensor& from, tf::Tensor* to) override {
    std::memcpy(to->data(), from.data(), from.TotalBytes());
    return absl::OkStatus();
  }
  absl::Status Upload(int, const tf::Tensor& host, tf::Tensor* on_device) override {
    *on_device = host;
    return absl::OkStatus();
  }
  absl::Status Download(const tf::Tensor& on_device, tf::Tensor* host) override {
    *host = on_device;
    return absl::OkStatus();
  }
  absl::Status EndTask() override { return absl::OkStatus(); }
  absl::Status Finish() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>&) override {
    return Idle();
  }
  absl::Status Replay(Recording*) override { return Idle(); }
  int64_t PeakBytes() override { return 0; }
  int64_t LimitBytes() override { return int64_t{1} << 40; }

  tf::ResourceMgr* resource_manager() override { return host_->resource_manager(); }
  tf::Allocator* GetAllocator(tf::AllocatorAttributes) override {
    return tf::cpu_allocator();
  }
  void Compute(tf::OpKernel*, tf::OpKernelContext* context) override {
    context->SetStatus(Idle());
  }
  void ComputeAsync(tf::AsyncOpKernel*, tf::OpKernelContext* context,
                    tf::AsyncOpKernel::DoneCallback done) override {
    context->SetStatus(Idle());
    done();
  }
  absl::Status MakeTensorFromProto(const tf::TensorProto& proto,
                                   tf::AllocatorAttributes attributes,
                                   tf::Tensor* tensor) override {
    return host_->MakeTensorFromProto(proto, attributes, tensor);
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  static tf::DeviceAttributes Attributes(const tf::Device& host) {
    tf::DeviceNameUtils::ParsedName name = host.parsed_name();
    name.type = tf::DEVICE_GPU;
    name.id = 0;
    return tf::Device::BuildDeviceAttributes(
        tf::DeviceNameUtils::ParsedNameToString(name), tf::DEVICE_GPU,
        tf::Bytes(int64_t{1} << 40), tf::DeviceLocality(), "idle");
  }

  tf::Device* const host_;  // not owned
};

class IdleGpus : public AcceleratorBackend {
 public:
  std::string type() const override { return tf::DEVICE_GPU; }
  int num_devices() override { return 1; }
  absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tf::SessionOptions&, tf::Device* host, int, int learner) override {
    // As the backend for GPUs does.
    tf::GpuIdManager::InsertTfPlatformDeviceIdPair(tsl::TfDeviceId(0),
                                                   tsl::PlatformDeviceId(0))
        .IgnoreError();
    return std::make_unique<IdleGpu>(host, learner);
  }
};

DeviceSma NewIdleSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                     CentralModel* central) {
  return {NewSma(options, static_cast<int>(learners.size()), central), nullptr, ""};
}

// --------------------------------------- the ops of fused_update_gpu_kernels.cc

class IdleKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* context) override { context->SetStatus(Idle()); }
};

#define REGISTER_IDLE(OP, TYPE_ATTRIBUTE, HOST)                                \
  REGISTER_KERNEL_BUILDER(Name("TensorBow" OP)                                 \
                              .Device(tf::DEVICE_GPU)                          \
                                  HOST.TypeConstraint<float>(TYPE_ATTRIBUTE),  \
                          IdleKernel);                                         \
  REGISTER_KERNEL_BUILDER(Name("TensorBow" OP)                                 \
                              .Device(tf::DEVICE_GPU)                          \
                                  HOST.TypeConstraint<double>(TYPE_ATTRIBUTE), \
                          IdleKernel)
#define REGISTER_IDLE_APPLY(OP, HOST) \
  REGISTER_IDLE(OP, "T", );           \
  REGISTER_IDLE("Resource" OP, "T", HOST)

#define HOST_VAR .HostMemory("var")
REGISTER_IDLE_APPLY("ApplyGradientDescent", HOST_VAR);
#define HOST_VAR_ACCUM .HostMemory("var").HostMemory("accum")
REGISTER_IDLE_APPLY("ApplyMomentum", HOST_VAR_ACCUM);
REGISTER_IDLE_APPLY("ApplyAdagrad", HOST_VAR_ACCUM);
REGISTER_IDLE_APPLY("ApplyAdagradV2", HOST_VAR_ACCUM);
#define HOST_VAR_M_V .HostMemory("var").HostMemory("m").HostMemory("v")
REGISTER_IDLE_APPLY("ApplyAdam", HOST_VAR_M_V);
#define HOST_VAR_MS_MOM .HostMemory("var").HostMemory("ms").HostMemory("mom")
REGISTER_IDLE_APPLY("ApplyRMSProp", HOST_VAR_MS_MOM);
REGISTER_IDLE("Assign", "T", );
REGISTER_IDLE("AssignAdd", "T", );
REGISTER_IDLE("AssignSub", "T", );
#define HOST_RESOURCE .HostMemory("resource")
REGISTER_IDLE("AssignVariableOp", "dtype", HOST_RESOURCE);
REGISTER_IDLE("AssignAddVariableOp", "dtype", HOST_RESOURCE);
REGISTER_IDLE("AssignSubVariableOp", "dtype", HOST_RESOURCE);

}  // namespace
}  // namespace tensorbow

extern "C" {

// Gives new sessions the GPU.
void OfferIdleGpu() {
  tensorbow::RegisterAccelerators(new tensorbow::IdleGpus);
  tensorbow::RegisterDeviceSma(tensorbow::NewIdleSma);
}

}  // extern "C"
