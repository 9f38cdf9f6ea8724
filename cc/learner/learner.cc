#include "cc/learner/learner.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "cc/rewrite/run_analysis.h"
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

}  // namespace

Learner::Program::~Program() {
  executor_.reset();  // its kernels use the runtime
  graph_.reset();
  runtime_.reset();
}

Learner::Learner(int id, const LearnerEnvironment& environment, int cpu,
                 std::chrono::microseconds spin)
    : id_(id),
      environment_(environment),
      allocator_(LearnerAllocator::New(absl::StrCat("tensorbow_learner_", id),
                                       PhysicalMemoryBytes())) {
  auto device = std::make_unique<LearnerCpuDevice>(id, environment.central_device,
                                                   allocator_.get());
  device_ = device.get();
  device_->op_segment()->AddHold(kSessionHandle);
  devices_ = std::make_unique<tf::StaticDeviceMgr>(std::move(device));
  if (id > 0) worker_ = std::make_unique<Worker>(cpu, spin);
}

Learner::~Learner() = default;

void Learner::ReleaseKernels() {
  worker_.reset();
  device_->op_segment()->RemoveHold(kSessionHandle);
}

std::unique_ptr<tf::ProcessFunctionLibraryRuntime> Learner::NewRuntime(
    const TaskGraph& task, const tf::FunctionLibraryDefinition* functions) const {
  const tf::ConfigProto& config = environment_.options->config;
  return std::make_unique<tf::ProcessFunctionLibraryRuntime>(
      devices_.get(), environment_.options->env, &config,
      task.graph->versions().producer(), functions,
      config.graph_options().optimizer_options(), /*thread_pool=*/nullptr,
      /*parent=*/nullptr, /*session_metadata=*/nullptr,
      tf::Rendezvous::Factory{[](int64_t, const tf::DeviceMgr* devices,
                                 tf::core::RefCountPtr<tf::Rendezvous>* rendezvous) {
        rendezvous->reset(new tf::IntraProcessRendezvous(devices));
        return absl::OkStatus();
      }});
}

void Learner::Optimise(TaskGraph* task) const {
  const auto runtime = NewRuntime(*task, task->functions.get());
  OptimiseTaskGraph(*environment_.options, runtime->GetFLR(device_->name()), task);
}

absl::Status Learner::Compile(const TaskGraph& task,
                              const Specialisation& specialisation,
                              std::unique_ptr<Program>* program) const {
  auto made = std::make_unique<Program>();
  TF_RETURN_IF_ERROR(
      SpecialiseTaskGraph(task, specialisation, &made->functions_, &made->graph_));
  made->feed_types_ = task.feed_types;
  made->fetch_types_ = task.fetch_types;
  made->runtime_ = NewRuntime(task, made->functions_.get());
  tf::FunctionLibraryRuntime* const runtime = made->runtime_->GetFLR(device_->name());

  tf::LocalExecutorParams params;
  params.device = device_;
  params.function_library = runtime;
  params.create_kernel = [this, runtime](
                             const std::shared_ptr<const tf::NodeProperties>& node,
                             tf::OpKernel** kernel) -> absl::Status {
    // The same division as in a stock session: stateful kernels belong to the op
    // segment (they outlive the executor and are shared between runs).
    if (!tf::OpSegment::ShouldOwnKernel(runtime, node->node_def.op())) {
      return runtime->CreateKernel(node, kernel);
    }
    if (HasSharedKernel(node->node_def, *node->op_def) ||
        (environment_.shares_random_state &&
         KeepsRandomState(node->node_def, *node->op_def))) {
      return environment_.shared_kernel(node, runtime, kernel);
    }
    return device_->op_segment()->FindOrCreate(
        kSessionHandle, node->node_def.name(), kernel,
        [&](tf::OpKernel** created) { return runtime->CreateKernel(node, created); });
  };
  params.delete_kernel = [runtime](tf::OpKernel* kernel) {
    if (kernel != nullptr &&
        !tf::OpSegment::ShouldOwnKernel(runtime, kernel->type_string())) {
      delete kernel;
    }
  };
  tf::Executor* executor = nullptr;
  TF_RETURN_IF_ERROR(tf::NewLocalExecutor(params, *made->graph_, &executor));
  made->executor_.reset(executor);
  *program = std::move(made);
  return absl::OkStatus();
}

absl::Status Learner::Execute(const Program& program, const Task& task,
                              std::vector<tf::Tensor>* fetches) {
  tf::FunctionCallFrame frame(program.feed_types_, program.fetch_types_);
  const absl::Status fed = frame.SetArgs(*task.feeds);
  if (absl::IsInternal(fed)) return absl::InvalidArgumentError(fed.message());
  TF_RETURN_IF_ERROR(fed);

  tf::ResourceMgr* const resources = device_->resource_manager();
  tf::ScopedStepContainer step_container(
      task.step_id,
      [resources](const std::string& name) { resources->Cleanup(name).IgnoreError(); });
  tf::PrivateIntraProcessRendezvous rendezvous(devices_.get());
  tf::TensorStore tensor_store;

  tf::Executor::Args args;
  args.step_id = task.step_id;
  args.rendezvous = &rendezvous;
  args.stats_collector = task.stats;
  args.call_frame = &frame;
  args.cancellation_manager = task.cancellation;
  args.session_config = &environment_.options->config;
  args.session_state = &session_state_;
  args.session_handle = kSessionHandle;
  args.tensor_store = &tensor_store;
  args.step_container = &step_container;
  args.run_all_kernels_inline = true;
  // Inline on the learner's own thread. Closures from elsewhere (a queue's other
  // end, a data pipeline that keeps this runner) must neither borrow that thread nor
  // run the graph on theirs.
  const auto& host_runner = environment_.host_runner;
  args.runner = [this, &host_runner](tf::Executor::Args::Closure closure) {
    if (current_learner == this) {
      closure();
    } else {
      host_runner(std::move(closure));
    }
  };

  const Learner* const outer = std::exchange(current_learner, this);
  absl::Status status;
  absl::Notification done;
  program.executor_->RunAsync(args, [&](const absl::Status& result) {
    status = result;
    done.Notify();
  });
  done.WaitForNotification();
  current_learner = outer;
  TF_RETURN_IF_ERROR(status);
  const absl::Status fetched =
      frame.ConsumeRetvals(fetches, /*allow_dead_tensors=*/false);
  return absl::IsInternal(fetched) ? absl::InvalidArgumentError(fetched.message())
                                   : fetched;
}

void Learner::AppendGraph(const Program& program, tf::GraphDef* graph) {
  program.graph_->ToGraphDef(graph);
}

}  // namespace tensorbow
