#include "cc/learner/learner.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cc/graph/op_facts.h"
#include "cc/learner/executions.h"
#include "cc/learner/task_obstacles.h"
#include "cc/passes/task/build_task.h"
#include "cc/support/flush_denormals.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/common_runtime/rendezvous_mgr.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/op_segment.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The hold on the kernels in a learner's op segment.
constexpr char kSessionHandle[] = "tensorbow";

// The learner whose task the current thread is executing.
thread_local const Learner* current_learner = nullptr;

bool AnyMayBlock(const TaskGraph& task) {
  for (const TaskPart& part : task.parts) {
    for (const tf::Node* node : part.graph->op_nodes()) {
      if (FactsOf(node->type_string()).may_block) return true;
    }
  }
  for (const std::string& name : task.functions->ListFunctionNames()) {
    for (const tf::NodeDef& node : task.functions->Find(name)->node_def()) {
      if (FactsOf(node.op()).may_block) return true;
    }
  }
  return false;
}

// Returns whether the op segment owns the kernel, so that it outlives the executor and
// programs share it. As in a stock session, these are stateful kernels. The ops of a
// rewritten program are excluded: another program may use their names for other ops.
bool OutlivesExecutor(tf::FunctionLibraryRuntime* runtime, const std::string& op) {
  return tf::OpSegment::ShouldOwnKernel(runtime, op) &&
         !absl::StartsWith(op, "TensorBow");
}

// Returns the kernel's name there. A variable may move to another container.
std::string KernelName(const tf::NodeDef& node) {
  if (!FactsOf(node.op()).creates_variable) return node.name();
  return absl::StrCat(node.name(), "/", node.attr().at("container").s());
}

// Marks the current thread as executing a task of this learner.
class ScopedLearner {
 public:
  explicit ScopedLearner(const Learner* learner)
      : outer_(std::exchange(current_learner, learner)), task_(learner->device()) {}
  ~ScopedLearner() { current_learner = outer_; }

 private:
  const Learner* const outer_;
  const LearnerCpuDevice::ScopedTask task_;
};

// The task time below which helpers would start too late.
constexpr absl::Duration kWorthHelp = absl::Microseconds(500);

}  // namespace

Learner::Program::~Program() {
  recorder_.reset();   // its recording uses the kernels' memory
  executors_.clear();  // their kernels use the runtime
  task_.parts.clear();
  runtime_.reset();
}

Learner::Learner(int id, const LearnerEnvironment& environment,
                 std::unique_ptr<AcceleratorDevice> accelerator)
    : id_(id), environment_(environment) {
  auto device =
      std::make_unique<LearnerCpuDevice>(id, environment.central_device, &completions_);
  device_ = device.get();
  std::vector<std::unique_ptr<tf::Device>> devices;
  devices.push_back(std::move(device));
  if (accelerator != nullptr) {
    accelerator_ = accelerator.release();
    devices.emplace_back(accelerator_->device());
  }
  devices_ = std::make_unique<tf::StaticDeviceMgr>(std::move(devices));
}

Learner::~Learner() { End(); }

void Learner::Begin(const LearnerThreads& threads, std::chrono::microseconds spin,
                    int neighbours, int64_t bytes) {
  working_ = true;
  allocator_ = LearnerAllocator::New(absl::StrCat("tensorbow_learner_", id_),
                                     PhysicalMemoryBytes());
  device_->Begin(allocator_.get(), threads);
  device_->op_segment()->AddHold(kSessionHandle);
  if (accelerator_ != nullptr) {
    accelerator_->Begin(neighbours, bytes);
    accelerator_->device()->op_segment()->AddHold(kSessionHandle);
  }
  if (id_ > 0) worker_ = std::make_unique<Worker>(threads.cpus, spin);
  if (threads.graph > 1) graph_threads_ = std::make_unique<GraphThreads>(threads.graph);
}

void Learner::End() {
  if (!std::exchange(working_, false)) return;
  worker_.reset();
  graph_threads_.reset();
  device_->op_segment()->RemoveHold(kSessionHandle);
  if (accelerator_ != nullptr) {
    Finish().IgnoreError();
    accelerator_->device()->op_segment()->RemoveHold(kSessionHandle);
    accelerator_->End();
  }
  device_->End();
  allocator_.reset();
}

void Learner::GetMemory(int64_t* bytes, int64_t* peak_bytes) const {
  tf::Allocator* const allocator = accelerator_ != nullptr
                                       ? accelerator_->device()->GetAllocator({})
                                       : allocator_.get();
  const auto stats = allocator == nullptr ? std::nullopt : allocator->GetStats();
  *bytes = stats.has_value() ? stats->bytes_in_use : 0;
  *peak_bytes = stats.has_value() ? stats->peak_bytes_in_use : 0;
}

bool Learner::KeepsOnAccelerator(const std::string& variable) const {
  return accelerator_ != nullptr &&
         environment_.variable_devices.Of(variable) == accelerator_->device()->name();
}

void Learner::Optimise(TaskGraph* task) const {
  const auto runtime = NewRuntime(*task, *environment_.options, devices_.get());
  OptimiseTaskGraph(*environment_.options, *runtime, task);
}

absl::StatusOr<std::unique_ptr<tf::Executor>> Learner::NewExecutor(
    const TaskPart& part, const tf::ProcessFunctionLibraryRuntime& runtimes) const {
  tf::FunctionLibraryRuntime* const runtime = runtimes.GetFLR(part.device->name());
  tf::Device* device = nullptr;
  TF_RETURN_IF_ERROR(devices_->LookupDevice(part.device->name(), &device));
  tf::LocalExecutorParams params;
  params.device = device;
  params.function_library = runtime;
  params.create_kernel = [this, runtime, device](
                             const std::shared_ptr<const tf::NodeProperties>& node,
                             tf::OpKernel** kernel) -> absl::Status {
    if (!OutlivesExecutor(runtime, node->node_def.op())) {
      return runtime->CreateKernel(node, kernel);
    }
    if (HasSharedKernel(node->node_def, *node->op_def) ||
        (environment_.shares_random_state &&
         KeepsRandomState(node->node_def, *node->op_def))) {
      return environment_.shared_kernel(node, runtime, kernel);
    }
    return device->op_segment()->FindOrCreate(
        kSessionHandle, KernelName(node->node_def), kernel,
        [&](tf::OpKernel** created) { return runtime->CreateKernel(node, created); });
  };
  params.delete_kernel = [runtime](tf::OpKernel* kernel) {
    if (kernel != nullptr && !OutlivesExecutor(runtime, kernel->type_string())) {
      delete kernel;
    }
  };
  tf::Executor* executor = nullptr;
  TF_RETURN_IF_ERROR(tf::NewLocalExecutor(params, *part.graph, &executor));
  return absl::WrapUnique(executor);
}

absl::StatusOr<std::unique_ptr<Learner::Program>> Learner::Compile(
    TaskGraph task) const {
  auto made = std::make_unique<Program>();
  made->task_ = std::move(task);
  const std::vector<TaskPart>& parts = made->task_.parts;
  made->may_block_ = AnyMayBlock(made->task_);
  made->runtime_ = NewRuntime(made->task_, *environment_.options, devices_.get());
  for (const TaskPart& part : parts) {
    TF_ASSIGN_OR_RETURN(std::unique_ptr<tf::Executor> executor,
                        NewExecutor(part, *made->runtime_));
    made->executors_.push_back(std::move(executor));
  }
  if (accelerator_ != nullptr && environment_.record_tasks &&
      made->task_.fixed_shapes) {
    made->recorder_ = std::make_unique<TaskRecorder>(
        accelerator_, TaskVariables(parts, accelerator_),
        ObstacleToRecording(parts, accelerator_->device()->name()),
        environment_.recording_refused);
  }
  return made;
}

void Learner::RunClosure(std::function<void()> closure) {
  if (current_learner != this) {
    environment_.host_runner(std::move(closure));
  } else if (graph_threads_ == nullptr) {
    closure();
  } else {
    graph_threads_->Run([this, closure = std::move(closure)] {
      const ScopedLearner executing(this);
      closure();
    });
  }
}

absl::Status Learner::ExecuteParts(const Program& program, const Task& task,
                                   const std::vector<tf::Tensor>& feeds,
                                   std::vector<tf::Tensor>* fetches) {
  tf::FunctionCallFrame frame(program.task_.feed_types, program.task_.fetch_types);
  const absl::Status fed = frame.SetArgs(feeds);
  if (absl::IsInternal(fed)) return absl::InvalidArgumentError(fed.message());
  TF_RETURN_IF_ERROR(fed);

  tf::ResourceMgr* const resources = device_->resource_manager();
  const int64_t step_id = NextStepId();
  tf::ScopedStepContainer step_container(step_id, [resources](const std::string& name) {
    resources->Cleanup(name).IgnoreError();
  });
  tf::PrivateIntraProcessRendezvous rendezvous(devices_.get());
  tf::TensorStore tensor_store;

  tf::Executor::Args args;
  args.step_id = step_id;
  args.rendezvous = &rendezvous;
  args.stats_collector = task.stats;
  args.call_frame = &frame;
  args.cancellation_manager = task.cancellation;
  args.session_config = &environment_.options->config;
  args.session_state = &session_state_;
  args.session_handle = kSessionHandle;
  args.tensor_store = &tensor_store;
  args.step_container = &step_container;
  args.run_all_kernels_inline = graph_threads_ == nullptr;
  // Runs on the learner's own thread, which also receives completions of asynchronous
  // kernels (LearnerCpuDevice), or on its graph's threads. Closures from elsewhere (a
  // data pipeline that keeps this runner) do not run there.
  args.runner = [this](tf::Executor::Args::Closure closure) {
    RunClosure(std::move(closure));
  };

  const ScopedLearner executing(this);
  const absl::Time begin = absl::Now();
  absl::Mutex mu;
  absl::Status status;                         // the first error
  size_t running = program.executors_.size();  // changed with the queue locked
  const auto start = [&] {
    for (const auto& executor : program.executors_) {
      executor->RunAsync(args,
                         [&, completions = &completions_](const absl::Status& result) {
                           bool first = false;
                           {
                             absl::MutexLock lock(&mu);
                             first = status.ok() && !result.ok();
                             status.Update(result);
                           }
                           // The other parts must not wait for values that will never
                           // arrive.
                           if (first && program.executors_.size() > 1)
                             rendezvous.StartAbort(result);
                           // From here on, no object of this call may be touched.
                           completions->Wake([&] { --running; });
                         });
    }
  };
  if (graph_threads_ == nullptr) {
    start();
  } else {
    const bool helped = program.may_block_ || program.last_task_ > kWorthHelp;
    graph_threads_->Begin(start, helped);
  }
  completions_.RunUntil([&] { return running == 0; });
  program.last_task_ = absl::Now() - begin;
  TF_RETURN_IF_ERROR(status);
  const absl::Status fetched =
      frame.ConsumeRetvals(fetches, /*allow_dead_tensors=*/false);
  return absl::IsInternal(fetched) ? absl::InvalidArgumentError(fetched.message())
                                   : fetched;
}

absl::Status Learner::ExecuteOnAccelerator(const Program& program, const Task& task,
                                           std::vector<tf::Tensor>* fetches) {
  std::vector<tf::Tensor> feeds = *task.feeds;
  if (feeds.size() != program.task_.feed_types.size()) {
    return ExecuteParts(program, task, feeds, fetches);  // which returns the error
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!program.task_.feeds_accelerator[i]) continue;
    const tf::Tensor host = feeds[i];
    TF_RETURN_IF_ERROR(accelerator_->Upload(static_cast<int>(i), host, &feeds[i]));
  }
  const auto execute = [&](const std::vector<tf::Tensor>& on_device,
                           std::vector<tf::Tensor>* made) {
    return ExecuteParts(program, task, on_device, made);
  };
  std::vector<tf::Tensor> made;
  if (program.recorder_ != nullptr && task.stats == nullptr) {
    TF_RETURN_IF_ERROR(
        program.recorder_->Run(feeds, environment_.replica_generation, execute, &made));
  } else {
    TF_RETURN_IF_ERROR(execute(feeds, &made));
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (!program.task_.fetches_accelerator[i]) continue;
    const tf::Tensor on_device = made[i];
    TF_RETURN_IF_ERROR(accelerator_->Download(on_device, &made[i]));
  }
  *fetches = std::move(made);
  return accelerator_->EndTask();
}

absl::Status Learner::Execute(const Program& program, const Task& task,
                              std::vector<tf::Tensor>* fetches) {
  const ScopedFlushDenormals flush;
  if (accelerator_ != nullptr) return ExecuteOnAccelerator(program, task, fetches);
  const absl::Status status = ExecuteParts(program, task, *task.feeds, fetches);
  device_->held_mutexes().UnlockAll();
  return status;
}

absl::Status Learner::Finish() {
  return accelerator_ == nullptr ? absl::OkStatus() : accelerator_->Finish();
}

void Learner::AppendGraph(const Program& program, tf::GraphDef* graph) {
  for (const TaskPart& part : program.task_.parts) {
    tf::GraphDef definition;
    part.graph->ToGraphDef(&definition);
    if (graph->node_size() == 0) {
      *graph = std::move(definition);
    } else {
      graph->mutable_node()->MergeFrom(definition.node());
    }
  }
}

}  // namespace tensorbow
