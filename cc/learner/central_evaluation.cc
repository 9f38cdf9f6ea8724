#include "cc/learner/central_evaluation.h"

#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "cc/graph/op_facts.h"
#include "cc/learner/executions.h"
#include "cc/learner/specialise.h"
#include "cc/passes/task/build_task.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/common_runtime/rendezvous_mgr.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/session_state.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::StatusOr<std::unique_ptr<CentralEvaluation>> CentralEvaluation::Make(
    const ProgramGraph& graph, const RunSpec& spec,
    const LearnerEnvironment& environment, const tf::DeviceMgr* devices) {
  auto made = absl::WrapUnique(new CentralEvaluation(environment, devices));
  tf::SessionOptions options = *environment.options;
  options.config.mutable_graph_options()
      ->mutable_rewrite_options()
      ->set_disable_meta_optimizer(true);
  tf::DeviceSet all;
  all.AddDevice(environment.central_device);
  all.set_client_device(environment.central_device);
  TaskDevices task_devices;
  task_devices.all = &all;
  task_devices.cpu = environment.central_device;
  TF_RETURN_IF_ERROR(BuildTaskGraph(graph, spec, options, task_devices, &made->task_));
  TF_RETURN_IF_ERROR(made->MakeExecutor());
  return made;
}

absl::Status CentralEvaluation::MakeExecutor() {
  tf::Device* const device = environment_.central_device;
  runtime_ = NewRuntime(task_, task_.functions.get(), *environment_.options, devices_);
  tf::FunctionLibraryRuntime* const library = runtime_->GetFLR(device->name());
  tf::LocalExecutorParams params;
  params.device = device;
  params.function_library = library;
  params.create_kernel = [this, library](
                             const std::shared_ptr<const tf::NodeProperties>& node,
                             tf::OpKernel** kernel) -> absl::Status {
    if (!HasSharedKernel(node->node_def, *node->op_def)) {
      return library->CreateKernel(node, kernel);
    }
    TF_RETURN_IF_ERROR(environment_.shared_kernel(node, library, kernel));
    shared_kernels_.insert(*kernel);
    return absl::OkStatus();
  };
  params.delete_kernel = [this](tf::OpKernel* kernel) {
    if (shared_kernels_.count(kernel) == 0) delete kernel;
  };
  tf::Executor* executor = nullptr;
  TF_RETURN_IF_ERROR(tf::NewLocalExecutor(params, *task_.parts[0].graph, &executor));
  executor_ = absl::WrapUnique(executor);
  return absl::OkStatus();
}

absl::Status CentralEvaluation::Run(const std::vector<tf::Tensor>& feeds,
                                    std::vector<tf::Tensor>* fetches) const {
  tf::FunctionCallFrame frame(task_.feed_types, task_.fetch_types);
  TF_RETURN_IF_ERROR(frame.SetArgs(feeds));
  tf::ResourceMgr* const resources = environment_.central_device->resource_manager();
  tf::Executor::Args args;
  args.step_id = NextStepId();
  tf::ScopedStepContainer step_container(
      args.step_id,
      [resources](const std::string& name) { resources->Cleanup(name).IgnoreError(); });
  tf::PrivateIntraProcessRendezvous rendezvous(devices_);
  tf::CancellationManager cancellation;
  tf::SessionState session_state;
  tf::TensorStore tensor_store;
  args.rendezvous = &rendezvous;
  args.call_frame = &frame;
  args.cancellation_manager = &cancellation;
  args.session_config = &environment_.options->config;
  args.session_state = &session_state;
  args.tensor_store = &tensor_store;
  args.step_container = &step_container;
  args.runner = environment_.host_runner;
  TF_RETURN_IF_ERROR(executor_->Run(args));
  return frame.ConsumeRetvals(fetches, /*allow_dead_tensors=*/false);
}

}  // namespace tensorbow
