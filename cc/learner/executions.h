// Objects that executors of a session's graphs need, on any device.
#ifndef TENSORBOW_CC_LEARNER_EXECUTIONS_H_
#define TENSORBOW_CC_LEARNER_EXECUTIONS_H_

#include <cstdint>
#include <memory>

#include "cc/graph/task_graph.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// Returns the runtime of the task graph's functions. It refers to all arguments.
std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> NewRuntime(
    const TaskGraph& task, const tensorflow::SessionOptions& options,
    const tensorflow::DeviceMgr* devices);

// Returns the id of an execution: unique in the process, different from stock
// sessions'.
int64_t NextStepId();

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_EXECUTIONS_H_
