// Emulated accelerators for sessions, ops that cannot be recorded, and tests of the
// recorder of tasks. Compiled and loaded by accelerator_test.py.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/learner/task_recorder.h"
#include "cc/synchroniser/algorithms/device_sma.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tests/cc/emulated_device.h"

namespace tensorbow {
namespace {

namespace tf = ::tensorflow;

class EmulatedBackend : public AcceleratorBackend {
 public:
  std::string type() const override { return "GPU"; }
  int num_devices() override { return TheEmulation().num_devices; }
  absl::StatusOr<std::unique_ptr<AcceleratorDevice>> NewDevice(
      const tf::SessionOptions&, tf::Device* host, int ordinal, int learner) override {
    return std::make_unique<EmulatedDevice>(host, learner, ordinal);
  }
};

// Tasks are executed at once, so the host averages.
DeviceSma NewEmulatedSma(const SmaOptions& options, std::vector<LearnerStream> learners,
                         CentralModel* central) {
  TheEmulation().reduces_on_host = options.reduces_on_host;
  return {NewSma(options, static_cast<int>(learners.size()), central), nullptr, ""};
}

// ------------------------------------------------------- ops that are not recorded

// y = x, by a kernel that continues in a callback.
REGISTER_OP("EmulatedAsync")
    .Input("x: float")
    .Output("y: float")
    .SetShapeFn(tf::shape_inference::UnchangedShape);
class AsyncKernel : public tf::AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    context->set_output(0, context->input(0));
    done();
  }
};
REGISTER_KERNEL_BUILDER(Name("EmulatedAsync").Device(tf::DEVICE_CPU), AsyncKernel);

// y = x, copied to host memory.
REGISTER_OP("EmulatedToHost")
    .Input("x: float")
    .Output("y: float")
    .SetShapeFn(tf::shape_inference::UnchangedShape);
class ToHostKernel : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* context) override {
    context->set_output(0, context->input(0));
  }
};
REGISTER_KERNEL_BUILDER(Name("EmulatedToHost").Device(tf::DEVICE_CPU).HostMemory("y"),
                        ToHostKernel);

// ------------------------------------------------------------- tests of the recorder

// A task that adds its feed to a resource variable and fetches nothing, executed by
// hand. Its device counts the recorder's actions.
class VariableTask {
 public:
  explicit VariableTask(tf::Device* host) : device_(host, 0) {
    device_.Begin(1, device_.LimitBytes());
    auto graph = std::make_unique<tf::Graph>(tf::OpRegistry::Global());
    tf::NodeDef node;
    node.set_name("v");
    node.set_op("VarHandleOp");
    (*node.mutable_attr())["dtype"].set_type(tf::DT_FLOAT);
    (*node.mutable_attr())["shape"].mutable_shape();
    (*node.mutable_attr())["shared_name"].set_s("v");
    (*node.mutable_attr())["container"].set_s("");
    absl::Status made;
    graph->AddNode(node, &made)->set_assigned_device_name(device_.name());
    parts_.push_back({&device_, std::move(graph)});
    variable_ = new tf::Var(tf::DT_FLOAT);
    variable_->is_initialized = true;
    *variable_->tensor() = New(0);
    resources()->Create<tf::Var>("localhost", "v", variable_).IgnoreError();
    recorder_ = std::make_unique<TaskRecorder>(
        &device_, TaskVariables(parts_, &device_), "",
        [this](const std::string& why) { refusals_.push_back(why); });
    TheEmulation().recordings = TheEmulation().replays = 0;
  }
  ~VariableTask() {
    recorder_.reset();
    resources()->Delete<tf::Var>("localhost", "v").IgnoreError();
  }

  bool Run(int64_t generation = 1) {
    const std::vector<tf::Tensor> feeds = {tf::Tensor(tf::DT_FLOAT, {4, 2})};
    std::vector<tf::Tensor> fetches;
    return recorder_
        ->Run(
            feeds, generation,
            [this](const std::vector<tf::Tensor>&, std::vector<tf::Tensor>*) {
              return Execute();
            },
            &fetches)
        .ok();
  }
  bool RunTasks(int tasks) {
    bool ran = true;
    for (int task = 0; task < tasks; ++task) ran &= Run();
    return ran;
  }

  // Assigns to the variable, which moves it to another buffer.
  void Move(float by) { *variable_->tensor() = New(value() + by); }
  const void* address() const { return variable_->tensor()->data(); }
  float value() const { return variable_->tensor()->scalar<float>()(); }
  int recordings() const { return TheEmulation().recordings; }
  int replays() const { return TheEmulation().replays; }

  bool moves_ = false;           // every task assigns, and so moves the variable
  bool moves_recorded_ = false;  // the recorded task moves it
  absl::Status failure_;         // of recording, after the task
  int executed_ = 0;
  std::vector<std::string> refusals_;

 private:
  tf::ResourceMgr* resources() { return device_.resource_manager(); }
  tf::Tensor New(float value) {
    tf::Tensor tensor(device_.GetAllocator({}), tf::DT_FLOAT, {});
    tensor.scalar<float>()() = value;
    return tensor;
  }
  absl::Status Execute() {
    const bool recorded = device_.GetAllocator({})->Name() == "recording";
    executed_ += recorded ? 0 : 1;
    if (moves_ || (recorded && moves_recorded_)) {
      Move(1);
    } else {
      variable_->tensor()->scalar<float>()() += 1;
    }
    return recorded ? failure_ : absl::OkStatus();
  }

  EmulatedDevice device_;
  std::vector<TaskPart> parts_;
  tf::Var* variable_ = nullptr;  // owned by the resource manager
  std::unique_ptr<TaskRecorder> recorder_;
};

constexpr int kWarmUp = 1;  // tasks before one is recorded

// Returns the error, or "".
using Test = std::string (*)(tf::Device* host);

std::string ReplaysWhatFits(tf::Device* host) {
  VariableTask task(host);
  if (!task.RunTasks(6)) return "a task failed";
  if (task.executed_ != kWarmUp) return "wrong number of warm-up tasks";
  if (task.replays() != 6 - kWarmUp) return "not replayed";
  if (!task.Run(/*generation=*/2) || task.replays() != 6 - kWarmUp) {
    return "a recording of another generation was replayed";
  }
  return task.refusals_.empty() ? "" : "refused " + task.refusals_[0];
}

std::string RecordsAgainWhenAVariableHasMoved(tf::Device* host) {
  VariableTask task(host);
  task.RunTasks(kWarmUp + 2);
  if (task.recordings() != 1 || task.replays() != 2) return "not replayed";
  task.Move(10);  // as another run of the session would
  if (!task.Run() || task.replays() != 2) return "replayed on the old buffer";
  if (task.value() != kWarmUp + 11) return "the task did not use the new buffer";
  task.RunTasks(kWarmUp);
  if (task.recordings() != 2) return "not recorded again";
  for (int i = 0; i < TaskRecorder::kForgottenRecordings; ++i) {
    task.Move(0);
    task.RunTasks(kWarmUp + 1);
  }
  const int replays = task.replays();
  task.RunTasks(kWarmUp + 1);
  if (task.replays() != replays || task.refusals_.size() != 1) return "goes on";
  return absl::StrContains(task.refusals_[0], "variable 'v'") ? "" : "does not say why";
}

std::string CopiesBackWhatATaskMoves(tf::Device* host) {
  VariableTask task(host);
  task.moves_ = true;
  if (!task.RunTasks(kWarmUp)) return "a task failed";
  const void* const address = task.address();
  for (int i = 0; i < 5; ++i) {
    if (!task.Run()) return "a task failed";
    if (task.address() != address) return "the variable is in another buffer";
  }
  if (task.recordings() != 1 || task.replays() != 5) return "not replayed";
  return task.refusals_.empty() ? "" : "refused " + task.refusals_[0];
}

std::string LeavesVariablesAsTheyWereIfRecordingFails(tf::Device* host) {
  const absl::Status unimplemented = absl::UnimplementedError("'x' (X) cannot");
  const absl::Status exhausted = absl::ResourceExhaustedError("no memory");
  for (const auto& [failure, recordings] :
       {std::pair(unimplemented, 1), std::pair(exhausted, TaskRecorder::kAttempts)}) {
    VariableTask task(host);
    task.moves_recorded_ = true;
    task.failure_ = failure;
    if (!task.RunTasks(10)) return "a task failed";
    if (task.recordings() != recordings) return "not recorded as often as it may work";
    if (task.replays() != 0) return "replayed";
    // The task to be recorded is executed once, on the value before it.
    if (task.executed_ != 10) return "executed another number of times";
    if (task.value() != 10) return "an update is lost or made twice";
    if (task.refusals_.size() != 1) return "did not say why, once";
    if (task.refusals_[0] != failure.message()) return task.refusals_[0];
  }
  return "";
}

std::string RecordsAgainAfterAFailure(tf::Device* host) {
  VariableTask task(host);
  task.failure_ = absl::ResourceExhaustedError("no memory");
  if (!task.RunTasks(kWarmUp + 1)) return "a task failed";
  task.failure_ = absl::OkStatus();
  if (!task.RunTasks(kWarmUp + 1)) return "a task failed";
  if (task.replays() != 1 || task.recordings() != 2) return "not replayed";
  return task.refusals_.empty() ? "" : "refused " + task.refusals_[0];
}

std::string DoesNotRecordAgainstAnObstacle(tf::Device* host) {
  EmulatedDevice device(host, 0);
  device.Begin(1, device.LimitBytes());
  int executed = 0, refusals = 0;
  TaskRecorder recorder(&device, TaskVariables({}, &device), "'y' is on the CPU",
                        [&](const std::string&) { ++refusals; });
  std::vector<tf::Tensor> fetches;
  for (int task = 0; task < 6; ++task) {
    const absl::Status ran = recorder.Run(
        {}, 1,
        [&](const std::vector<tf::Tensor>&, std::vector<tf::Tensor>*) {
          ++executed;
          return absl::OkStatus();
        },
        &fetches);
    if (!ran.ok()) return "a task failed";
  }
  return executed == 6 && refusals == 1 ? "" : "recorded in spite of an obstacle";
}

std::string KeepsToItsShareOfTheMemory(tf::Device* host) {
  constexpr int64_t kMiB = 1 << 20;
  TheEmulation().limit_bytes = 8 * kMiB;
  std::string failure;
  for (const int learner : {0, 1}) {  // also the first one
    EmulatedDevice device(host, learner);
    device.Begin(/*learners=*/2, device.LimitBytes());
    const auto allocate = [&](int64_t mib) {
      return tf::Tensor(device.GetAllocator({}), tf::DT_INT8, {mib * kMiB});
    };
    if (allocate(5).IsInitialized()) failure = "more than its share";
    std::vector<tf::Tensor> kept = {allocate(1)};
    if (!kept[0].IsInitialized()) failure = "less than its share";
    // A recording's memory is part of the share.
    const auto recorded = device.Record([&] {
      if (allocate(3).IsInitialized()) failure = "a recording takes more";
      kept.push_back(tf::Tensor(device.GetAllocator({}), tf::DT_FLOAT, {1}));
      return absl::OkStatus();
    });
    if (!kept[1].IsInitialized()) failure = "no memory for a recording";
  }
  TheEmulation().limit_bytes = int64_t{1} << 40;
  return failure;
}

std::string TensorsMayOutliveARecordingAndItsDevice(tf::Device* host) {
  tf::Tensor kept;
  auto device = std::make_unique<EmulatedDevice>(host, 0);
  device->Begin(1, device->LimitBytes());
  auto recording = device->Record([&] {
    kept = tf::Tensor(device->GetAllocator({}), tf::DT_FLOAT, {1000});
    return absl::OkStatus();
  });
  recording->reset();
  device.reset();
  kept.flat<float>().setConstant(3);
  return kept.flat<float>()(999) == 3 ? "" : "gone";
}

const std::pair<const char*, Test> kTests[] = {
    {"ReplaysWhatFits", ReplaysWhatFits},
    {"RecordsAgainWhenAVariableHasMoved", RecordsAgainWhenAVariableHasMoved},
    {"CopiesBackWhatATaskMoves", CopiesBackWhatATaskMoves},
    {"RecordsAgainAfterAFailure", RecordsAgainAfterAFailure},
    {"LeavesVariablesAsTheyWereIfRecordingFails",
     LeavesVariablesAsTheyWereIfRecordingFails},
    {"DoesNotRecordAgainstAnObstacle", DoesNotRecordAgainstAnObstacle},
    {"KeepsToItsShareOfTheMemory", KeepsToItsShareOfTheMemory},
    {"TensorsMayOutliveARecordingAndItsDevice",
     TensorsMayOutliveARecordingAndItsDevice},
};

}  // namespace
}  // namespace tensorbow

extern "C" {

// Gives new sessions this number of accelerators, with this memory each.
void EmulateAccelerators(int number, int64_t bytes) {
  tensorbow::TheEmulation().num_devices = number;
  tensorbow::TheEmulation().limit_bytes = bytes;
  tensorbow::RegisterAccelerators(new tensorbow::EmulatedBackend);
  tensorbow::RegisterDeviceSma(tensorbow::NewEmulatedSma);
}

// Sets whether recordings may contain waits, and the op that breaks a recording ("" for
// none); sets the counts of recordings and replays to 0.
void EmulateRecordings(int records_waits, const char* unrecordable) {
  tensorbow::TheEmulation().records_waits = records_waits != 0;
  tensorbow::TheEmulation().unrecordable = unrecordable;
  tensorbow::TheEmulation().recordings = tensorbow::TheEmulation().replays = 0;
}

// Returns whether the last session's averages were to be reduced on the host.
int ReducesOnHost() { return tensorbow::TheEmulation().reduces_on_host ? 1 : 0; }
int NumUploads() { return tensorbow::TheEmulation().uploads; }
int NumDownloads() { return tensorbow::TheEmulation().downloads; }
int NumRecordings() { return tensorbow::TheEmulation().recordings; }
int NumReplays() { return tensorbow::TheEmulation().replays; }

// Copies the failures into `text`, a line for each test, and returns the length.
int TestRecorder(char* text, int size) {
  std::string failures;
  for (const auto& [name, test] : tensorbow::kTests) {
    auto device = tensorflow::DeviceFactory::NewDevice(
        "CPU", tensorflow::SessionOptions(), "/job:localhost/replica:0/task:0");
    const std::string failure = test(device.get());
    if (!failure.empty()) absl::StrAppend(&failures, name, ": ", failure, "\n");
  }
  std::strncpy(text, failures.c_str(), size - 1);
  return static_cast<int>(failures.size());
}

}  // extern "C"
