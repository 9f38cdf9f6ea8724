// Registers GPUs as accelerators, and model averaging on them, when the library is
// loaded.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/device/accelerator.h"
#include "cc/device/gpu/learner_gpu_device.h"
#include "cc/device/gpu/stream_group.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "cc/synchroniser/gpu/new_gpu_sma.h"
#include "tensorflow/core/common_runtime/gpu/gpu_id_manager.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

// The default part of the free memory that learners use; the rest is for kernels' code
// and the libraries' handles.
constexpr double kMemoryFraction = 0.9;

class GpuBackend : public AcceleratorBackend {
 public:
  std::string type() const override { return tf::DEVICE_GPU; }

  int num_devices() override {
    static const int number = NumGpus();
    return number;
  }

  absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tf::SessionOptions& options, tf::Device* host, int ordinal,
      int learner) override {
    // TensorFlow's optimisers look up the GPU by its name in the graph.
    tf::GpuIdManager::InsertTfPlatformDeviceIdPair(tsl::TfDeviceId(0),
                                                   tsl::PlatformDeviceId(0))
        .IgnoreError();  // it exists already
    TF_ASSIGN_OR_RETURN(const int64_t shared, AvailableBytes(options, ordinal));
    return LearnerGpuDevice::New(options, host, ordinal, learner, shared);
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
  RegisterDeviceSma(NewGpuSma);
  return true;
}();

}  // namespace
}  // namespace tensorbow
