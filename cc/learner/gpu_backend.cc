// Registers GPUs as accelerators when the library is loaded.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/device/accelerator.h"
#include "cc/device/gpu/learner_gpu_device.h"
#include "cc/device/gpu/stream_group.h"
#include "cc/synchroniser/gpu/new_gpu_sma.h"
#include "tensorflow/core/common_runtime/gpu/gpu_id_manager.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// The part of the free memory that learners use where the program does not say; the
// rest is for kernels' code and the libraries' handles.
constexpr double kMemoryFraction = 0.9;

class GpuBackend : public AcceleratorBackend {
 public:
  std::string type() const override { return tf::DEVICE_GPU; }

  int num_devices() override {
    static const int number = NumGpus();
    return number;
  }

  absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tf::SessionOptions& options, tf::Device* host, int ordinal, int learner,
      int learners) override {
    // TensorFlow's optimisers look the GPU up whose name they find in the graph.
    tf::GpuIdManager::InsertTfPlatformDeviceIdPair(tsl::TfDeviceId(0),
                                                   tsl::PlatformDeviceId(0))
        .IgnoreError();  // it is there already
    TF_ASSIGN_OR_RETURN(const int64_t shared, AvailableBytes(options, ordinal));
    return LearnerGpuDevice::New(options, host, ordinal, learner, learners, shared);
  }

  absl::StatusOr<std::unique_ptr<Synchroniser>> NewSma(
      const std::vector<AcceleratorDevice*>& devices, CentralModel* central,
      std::chrono::microseconds spin, double alpha, int64_t period) override {
    std::vector<GpuLearner> learners;
    for (AcceleratorDevice* device : devices) {
      auto* const gpu = static_cast<LearnerGpuDevice*>(device);
      learners.push_back({gpu->ordinal(), gpu->compute_stream()});
    }
    auto made = NewGpuSma(std::move(learners), central, spin, alpha, period);
    if (!made->error().empty()) return absl::InternalError(made->error());
    return made;
  }

 private:
  static absl::StatusOr<int64_t> AvailableBytes(const tf::SessionOptions& options,
                                                int ordinal) {
    TF_ASSIGN_OR_RETURN(const StreamGroupHandle streams,
                        TakeStreamGroup(ordinal, options.config.gpu_options()));
    int64_t free = 0, total = 0;
    if (!streams->executor->DeviceMemoryUsage(&free, &total)) {
      return absl::UnavailableError(
          absl::StrCat("GPU ", ordinal, " does not tell how much memory it has"));
    }
    const double fraction =
        options.config.gpu_options().per_process_gpu_memory_fraction();
    return fraction > 0 ? std::min(free, static_cast<int64_t>(fraction * total))
                        : static_cast<int64_t>(kMemoryFraction * free);
  }
};

const bool registered = [] {
  RegisterAccelerators(new GpuBackend);
  return true;
}();

}  // namespace
}  // namespace tensorbow
