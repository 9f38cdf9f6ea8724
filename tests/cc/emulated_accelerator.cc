// An accelerator that is none: its memory is the host's, and its device is "CPU:1".
// With it, tests execute everything that is not the GPU's own: tasks in two parts,
// feeds and fetches through the device, replicas that are copied in and out.
//
// Like a GPU's work, a download is only done when Finish() is called. Compiled and
// loaded by accelerator_test.py.
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/device/accelerator.h"
#include "cc/device/cpu/learner_cpu_device.h"
#include "cc/learner/task_recorder.h"
#include "cc/memory/learner_allocator.h"
#include "cc/synchroniser/device_sma.h"
#include "cc/synchroniser/sma.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

int num_devices = 1;
int64_t limit_bytes = int64_t{1} << 40;
std::atomic<int> uploads{0}, downloads{0};

class EmulatedDevice : public tf::Device, public AcceleratorDevice {
 public:
  EmulatedDevice(tf::Device* host, int learner, int ordinal = 0)
      : Device(tf::Env::Default(), Attributes(*host)),
        AcceleratorDevice(learner),
        ordinal_(ordinal),
        allocator_(LearnerAllocator::New("emulated", int64_t{1} << 34)),
        like_(learner, host, allocator_.get()) {
    set_tensorflow_cpu_worker_threads(
        const_cast<CpuWorkerThreads*>(like_.tensorflow_cpu_worker_threads()));
    set_eigen_cpu_device(
        const_cast<Eigen::ThreadPoolDevice*>(like_.eigen_cpu_device()));
  }
  ~EmulatedDevice() override { slots_.clear(); }

  std::string Description() override { return "emulated"; }
  tf::Device* device() override { return this; }
  int ordinal() const override { return ordinal_; }
  void* stream() override { return nullptr; }
  absl::Status CopyIn(const tf::Tensor& host, tf::Tensor* on_device) override {
    return Copy(host, on_device);
  }
  absl::Status CopyOut(const tf::Tensor& on_device, tf::Tensor* host) override {
    return Copy(on_device, host);
  }
  absl::Status Copy(const tf::Tensor& from, tf::Tensor* to) override {
    if (from.TotalBytes() != to->TotalBytes()) {
      return absl::InternalError("copy between tensors of different size");
    }
    std::memcpy(to->data(), from.data(), from.TotalBytes());
    return absl::OkStatus();
  }
  absl::Status Upload(int feed, const tf::Tensor& host,
                      tf::Tensor* on_device) override {
    ++uploads;
    *on_device = tf::Tensor(allocator_.get(), host.dtype(), host.shape());
    return Copy(host, on_device);
  }
  absl::Status Download(const tf::Tensor& on_device, tf::Tensor* host) override {
    ++downloads;
    *host = tf::Tensor(on_device.dtype(), on_device.shape());
    std::memset(host->data(), 0xff, host->TotalBytes());
    slots_.emplace_back(on_device, *host);
    return absl::OkStatus();
  }
  absl::Status EndTask() override { return absl::OkStatus(); }
  absl::Status Finish() override {
    for (auto& [from, to] : slots_) TF_RETURN_IF_ERROR(Copy(from, &to));
    slots_.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>&) override {
    return absl::UnimplementedError("'MatMul' (MatMul) is emulated");
  }
  absl::Status Replay(Recording*) override { return absl::InternalError("replay"); }
  int64_t PeakBytes() override { return allocator_->GetStats()->peak_bytes_in_use; }
  int64_t LimitBytes() override { return limit_bytes; }

  tf::ResourceMgr* resource_manager() override { return like_.resource_manager(); }
  tf::Allocator* GetAllocator(tf::AllocatorAttributes) override {
    return allocator_.get();
  }
  absl::Status MakeTensorFromProto(const tf::TensorProto& proto,
                                   tf::AllocatorAttributes attributes,
                                   tf::Tensor* tensor) override {
    return like_.MakeTensorFromProto(proto, attributes, tensor);
  }
  void CopyTensorInSameDevice(const tf::Tensor* input, tf::Tensor* output,
                              const tf::DeviceContext* context,
                              tf::StatusCallback done) override {
    like_.CopyTensorInSameDevice(input, output, context, std::move(done));
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  static tf::DeviceAttributes Attributes(const tf::Device& host) {
    tf::DeviceNameUtils::ParsedName name = host.parsed_name();
    name.id = 1;
    return tf::Device::BuildDeviceAttributes(
        tf::DeviceNameUtils::ParsedNameToString(name), tf::DEVICE_CPU,
        tf::Bytes(1 << 30), tf::DeviceLocality(), "emulated");
  }

  const int ordinal_;
  LearnerAllocator::Owner allocator_;
  LearnerCpuDevice like_;
  std::vector<std::pair<tf::Tensor, tf::Tensor>> slots_;
};

class EmulatedBackend : public AcceleratorBackend {
 public:
  std::string type() const override { return "GPU"; }
  int num_devices() override { return tensorbow::num_devices; }
  absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tf::SessionOptions&, tf::Device* host, int ordinal, int learner,
      int) override {
    return std::make_unique<EmulatedDevice>(host, learner, ordinal);
  }
};

// Records by keeping the closure: executing it again is the replay.
class ReplayingDevice : public EmulatedDevice {
 public:
  using EmulatedDevice::EmulatedDevice;
  struct Kept : Recording {
    std::function<absl::Status()> work;
  };
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& enqueue) override {
    if (refuse) return absl::UnimplementedError("'x' (Where)");
    auto kept = std::make_unique<Kept>();
    kept->work = enqueue;
    recording = true;
    const absl::Status status = enqueue();
    recording = false;
    TF_RETURN_IF_ERROR(status);
    return kept;
  }
  absl::Status Replay(Recording* recording) override {
    ++replays;
    return absl::OkStatus();
  }
  bool refuse = false;
  bool recording = false;
  int replays = 0;
};

// Tasks are executed at once: averaging is the host's.
DeviceSma NewEmulatedSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                         CentralModel* central) {
  return {NewSma(options, static_cast<int>(learners.size()), central), nullptr, ""};
}

// What goes wrong in a recorder of tasks, or "".
std::string RecorderFails(tf::Device* host) {
  const auto feed = [](int rows) {
    return std::vector<tf::Tensor>{tf::Tensor(tf::DT_FLOAT, {rows, 2})};
  };
  ReplayingDevice device(host, 0);
  int executed = 0;
  std::vector<std::string> refusals;
  const auto refused = [&](const std::string& why) { refusals.push_back(why); };
  const TaskRecorder::Execute execute = [&](const std::vector<tf::Tensor>& feeds,
                                            std::vector<tf::Tensor>* fetches) {
    executed += device.recording ? 0 : 1;
    *fetches = feeds;
    return absl::OkStatus();
  };
  std::vector<tf::Tensor> fetches;
  TaskRecorder recorder(&device, "", refused);
  const auto run = [&](int rows, int64_t generation) {
    return recorder.Run(feed(rows), generation, execute, &fetches).ok();
  };
  for (int task = 0; task < 6; ++task) {
    if (!run(4, 1)) return "a task failed";
  }
  if (executed != TaskRecorder::kWarmUpTasks) return "wrong number of warm-up tasks";
  if (device.replays != 6 - TaskRecorder::kWarmUpTasks) return "not replayed";
  if (!run(3, 1) || executed != TaskRecorder::kWarmUpTasks + 1) {
    return "a task of another shape was replayed";
  }
  if (!run(4, 1) || device.replays != 7 - TaskRecorder::kWarmUpTasks) {
    return "the recording was forgotten";
  }
  const int replays = device.replays;
  if (!run(4, 2) || device.replays != replays) {
    return "a recording of variables that have moved was replayed";
  }
  if (!refusals.empty()) return "refused " + refusals[0];

  device.refuse = true;
  TaskRecorder refusing(&device, "", refused);
  for (int task = 0; task < 6; ++task) {
    if (!refusing.Run(feed(4), 1, execute, &fetches).ok()) return "fell over";
  }
  if (refusals.size() != 1 || refusals[0] != "'x' (Where)") return "did not say why";
  TaskRecorder hopeless(&device, "'y' is executed on the CPU", refused);
  executed = 0;
  for (int task = 0; task < 6; ++task) {
    if (!hopeless.Run(feed(4), 1, execute, &fetches).ok()) return "fell over";
  }
  if (executed != 6 || refusals.size() != 2) return "recorded in spite of an obstacle";
  return "";
}

}  // namespace
}  // namespace tensorbow

extern "C" {

// From now on new sessions have this many accelerators, with so much memory each.
void EmulateAccelerators(int number, int64_t bytes) {
  tensorbow::num_devices = number;
  tensorbow::limit_bytes = bytes;
  tensorbow::RegisterAccelerators(new tensorbow::EmulatedBackend);
  tensorbow::RegisterDeviceSma(tensorbow::NewEmulatedSma);
}

int NumUploads() { return tensorbow::uploads; }
int NumDownloads() { return tensorbow::downloads; }

// Returns the error text's length, having copied it into `text`.
int TestRecorder(char* text, int size) {
  auto device = tensorflow::DeviceFactory::NewDevice(
      "CPU", tensorflow::SessionOptions(), "/job:localhost/replica:0/task:0");
  const std::string failure = tensorbow::RecorderFails(device.get());
  std::strncpy(text, failure.c_str(), size - 1);
  return static_cast<int>(failure.size());
}

}  // extern "C"
