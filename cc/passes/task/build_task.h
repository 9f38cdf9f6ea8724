// Lowers a run of the program's graph to the graph of a task.
//
// The graph is pruned, placed and optimised once, exactly as in a stock session (the
// same passes, hence the same kernels; see onednn.h for an exception). Names are kept,
// so error messages and checkpoints look the same. Pure functions.
#ifndef TENSORBOW_CC_PASSES_TASK_BUILD_TASK_H_
#define TENSORBOW_CC_PASSES_TASK_BUILD_TASK_H_

#include "absl/status/status.h"
#include "cc/graph/program_graph.h"
#include "cc/graph/task_graph.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// Prunes, places and optimises. The task has one part, with the nodes of all devices.
absl::Status LowerTask(const ProgramGraph& program, const RunSpec& spec,
                       const tensorflow::SessionOptions& options,
                       const TaskDevices& devices, TaskGraph* task);

// Divides a lowered task between the CPU and the accelerator, and selects kernels.
absl::Status DivideTask(const ProgramGraph& program, const RunSpec& spec,
                        const tensorflow::SessionOptions& options,
                        const TaskDevices& devices, TaskGraph* task);

// Applies the graph optimisations that need a function library runtime (constant
// folding, inlining); in place, once per task graph.
void OptimiseTaskGraph(const tensorflow::SessionOptions& options,
                       const tensorflow::ProcessFunctionLibraryRuntime& runtime,
                       TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_BUILD_TASK_H_
