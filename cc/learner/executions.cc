#include "cc/learner/executions.h"

#include <atomic>

#include "tensorflow/core/common_runtime/rendezvous_mgr.h"

namespace tensorbow {

namespace tf = ::tensorflow;

std::unique_ptr<tf::ProcessFunctionLibraryRuntime> NewRuntime(
    const TaskGraph& task, const tf::SessionOptions& options,
    const tf::DeviceMgr* devices) {
  return std::make_unique<tf::ProcessFunctionLibraryRuntime>(
      devices, options.env, &options.config, task.parts[0].graph->versions().producer(),
      task.functions.get(), options.config.graph_options().optimizer_options(),
      /*thread_pool=*/nullptr, /*parent=*/nullptr, /*session_metadata=*/nullptr,
      tf::Rendezvous::Factory{[](int64_t, const tf::DeviceMgr* devices,
                                 tf::core::RefCountPtr<tf::Rendezvous>* rendezvous) {
        rendezvous->reset(new tf::IntraProcessRendezvous(devices));
        return absl::OkStatus();
      }});
}

int64_t NextStepId() {
  static std::atomic<int64_t> next{int64_t{1} << 40};
  return next.fetch_add(1);
}

}  // namespace tensorbow
