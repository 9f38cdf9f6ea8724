#include "cc/learner/learner_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/memory/learners_that_fit.h"
#include "cc/support/cpus.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_util.h"
#include "tensorflow/core/framework/op_segment.h"
#include "tensorflow/core/platform/cpu_info.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The time that a learner polls for its neighbours (or the next run) before it blocks.
constexpr std::chrono::microseconds kSpin(200);

// The default number.
constexpr int kLearnersPerAccelerator = 2;

// The node by which the central session reveals the name of its kernels.
constexpr char kHandleNode[] = "TensorBow.session_handle";

// Returns the CPUs for a learner's threads, if each learner can have CPUs of its own;
// else none. A process whose quota is below its CPUs competes with others, so the
// system chooses where it runs.
std::vector<int> CpusOf(int learner, int num_learners, int num_devices,
                        const Layout& layout) {
  const std::vector<int> all = AllowedCpus();
  if (NumCores() < static_cast<int>(all.size()) || layout.threads == 0 ||
      layout.threads_before(num_learners, num_devices) > static_cast<int>(all.size())) {
    return {};
  }
  const auto first = all.begin() + layout.threads_before(learner, num_devices);
  return {first, first + layout.threads_of(learner, num_devices)};
}

}  // namespace

LearnerGroup::LearnerGroup(const tf::SessionOptions& session_options,
                           const Options& options, tf::Session* central,
                           tf::Device* central_device, AcceleratorBackend* accelerators,
                           std::function<void(const std::string&)> recording_refused)
    : session_options_(session_options),
      options_(options),
      central_(central),
      accelerators_(accelerators) {
  environment_.options = &session_options_;
  environment_.central_device = central_device;
  environment_.host_runner = [this](std::function<void()> closure) {
    absl::call_once(host_pool_once_, [this] {
      host_pool_ = std::make_unique<tf::thread::ThreadPool>(
          session_options_.env, "tensorbow_host",
          std::max(2, tf::port::NumSchedulableCPUs()));
    });
    host_pool_->Schedule(std::move(closure));
  };
  environment_.shared_kernel =
      [this, central_device](const std::shared_ptr<const tf::NodeProperties>& node,
                             tf::FunctionLibraryRuntime* runtime,
                             tf::OpKernel** kernel) {
        return central_device->op_segment()->FindOrCreate(
            central_handle_, node->node_def.name(), kernel,
            [&](tf::OpKernel** made) { return runtime->CreateKernel(node, made); });
      };
  using Recording = Options::TaskRecording;
  environment_.record_tasks =
      options.task_recording != Recording::kOff && options.sync_period == 1;
  if (options.task_recording == Recording::kOn) {
    environment_.recording_refused = std::move(recording_refused);
  }
}

absl::StatusOr<Layout> LearnerGroup::FirstLayout() const {
  if (options_.learners_per_device > 0) return LayoutOf(options_.learners_per_device);
  if (accelerators_ != nullptr) return LayoutOf(kLearnersPerAccelerator);
  const std::vector<int>& threads = options_.threads_per_learner;
  return LayoutOf(std::max(1, NumCores() / (threads.empty() ? 1 : threads[0])));
}

absl::StatusOr<Layout> LearnerGroup::LayoutOf(int learners_per_device) const {
  const std::vector<int>& threads = options_.threads_per_learner;
  if (threads.empty()) {
    const bool lone = learners_per_device == 1 && accelerators_ == nullptr;
    return Layout{learners_per_device, lone ? 0 : 1};
  }
  if (threads.size() == 1) return Layout{learners_per_device, threads[0]};
  if (static_cast<int>(threads.size()) == learners_per_device) {
    return Layout::Of(threads);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "threads_per_learner has numbers for ", threads.size(), " learners, and ",
      learners_per_device, " are wanted; call set_learners(", learners_per_device,
      ", threads=...) first"));
}

int LearnerGroup::num_devices() const {
  return accelerators_ == nullptr ? 1 : accelerators_->num_devices();
}

absl::Status LearnerGroup::Make(const Layout& layout) {
  for (int j = static_cast<int>(learners_.size()); j < SizeOf(layout); ++j) {
    std::unique_ptr<AcceleratorDevice> accelerator;
    if (accelerators_ != nullptr) {
      TF_ASSIGN_OR_RETURN(
          accelerator,
          accelerators_->NewDevice(session_options_, environment_.central_device,
                                   j % num_devices(), j));
    }
    learners_.push_back(
        std::make_unique<Learner>(j, environment_, std::move(accelerator)));
  }
  return absl::OkStatus();
}

void LearnerGroup::SetLayout(const Layout& layout) {
  for (const auto& learner : learners_) learner->End();
  layout_ = layout;
  const int size = SizeOf(layout);
  size_.store(size);
  // The central session's kernels are on the CPU.
  environment_.shares_random_state =
      size == 1 && accelerators_ == nullptr && !options_.seed.has_value();
  if (accelerators_ != nullptr && environment_.recording_refused &&
      !environment_.record_tasks) {
    environment_.recording_refused(
        "with a sync_period above 1 not every task is the same");
  }
  const bool fits = layout.threads_before(size, num_devices()) <= NumCores();
  spin_ = fits ? kSpin : std::chrono::microseconds(0);
  for (int j = 0; j < size; ++j) {
    LearnerThreads threads;
    threads.count = layout.threads_of(j, num_devices());
    // Random numbers must be drawn in the same order every time.
    if (environment_.shares_random_state) {
      threads.graph =
          layout.threads > 0
              ? layout.threads
              : std::max(1, tf::NumInterOpThreadsFromSessionOptions(session_options_));
    }
    if (options_.pin_threads) threads.cpus = CpusOf(j, size, num_devices(), layout);
    // The bytes that the device's first learner found free: those made later find less,
    // since other learners hold memory until then.
    AcceleratorDevice* const first = learners_[j % num_devices()]->accelerator();
    learners_[j]->Begin(threads, spin_, layout.learners,
                        first == nullptr ? 0 : first->LimitBytes());
  }
}

std::vector<std::string> LearnerGroup::Descriptions() const {
  std::vector<std::string> descriptions;
  for (int j = 0; j < size(); ++j) {
    AcceleratorDevice* const accelerator = learners_[j]->accelerator();
    descriptions.push_back(accelerator != nullptr ? accelerator->Description()
                                                  : learners_[j]->device()->name());
  }
  return descriptions;
}

TaskDevices LearnerGroup::Devices(tf::DeviceSet* all) {
  const tf::DeviceMgr* local = nullptr;
  TaskDevices devices;
  if (central_->LocalDeviceManager(&local).ok()) {
    for (tf::Device* device : local->ListDevices()) all->AddDevice(device);
  }
  all->set_client_device(environment_.central_device);
  devices.all = all;
  devices.cpu = environment_.central_device;
  if (accelerators_ != nullptr) {
    devices.accelerator = learners_[0]->accelerator()->device();
    all->AddDevice(devices.accelerator);
    devices.variables = &environment_.variable_devices;
  }
  return devices;
}

absl::Status LearnerGroup::FindCentralHandle(const ProgramGraph& graph) {
  if (!central_handle_.empty()) return absl::OkStatus();
  tf::GraphDef question;
  *question.mutable_versions() = graph.graph_def().versions();
  tf::NodeDef* const node = question.add_node();
  node->set_name(kHandleNode);
  node->set_op("TensorBowSessionHandle");
  TF_RETURN_IF_ERROR(central_->Extend(question));
  std::vector<tf::Tensor> answer;
  TF_RETURN_IF_ERROR(central_->Run({}, {kHandleNode}, {}, &answer));
  central_handle_ = answer[0].scalar<tf::tstring>()();
  return absl::OkStatus();
}

absl::Status LearnerGroup::EnsureSharedKernels(const ProgramGraph& graph,
                                               const std::vector<std::string>& nodes) {
  tf::CallableOptions callable;
  for (const std::string& node : nodes) {
    if (shared_kernels_.count(node) == 0) callable.add_target(node);
  }
  if (callable.target_size() == 0) return absl::OkStatus();
  TF_RETURN_IF_ERROR(FindCentralHandle(graph));
  // Making a callable creates the kernels in the stock session, with its own function
  // library, and executes nothing. The callable lives as long as the session.
  tf::Session::CallableHandle handle;
  TF_RETURN_IF_ERROR(central_->MakeCallable(callable, &handle));
  shared_kernels_.insert(callable.target().begin(), callable.target().end());
  return absl::OkStatus();
}

absl::Status LearnerGroup::CheckMemory(int learners_per_device) const {
  if (accelerators_ == nullptr) return absl::OkStatus();
  AcceleratorDevice* const device = learners_[0]->accelerator();
  return CheckLearnersFit(device->PeakBytes(), device->LimitBytes(),
                          learners_per_device);
}

void LearnerGroup::ReleaseKernels() {
  for (const auto& learner : learners_) learner->End();
}

}  // namespace tensorbow
