// A graph without side effects that is evaluated, now and then, where a stock session
// executes runs: on the session's CPU, with all its threads and its allocator, and on
// the central variables. Unlike a stock session's run it is not rewritten first by
// TensorFlow's graph optimisers (Grappler), which takes longer than it does to evaluate
// a graph a few times, and the session's graph is not extended by it.
#ifndef TENSORBOW_CC_LEARNER_CENTRAL_EVALUATION_H_
#define TENSORBOW_CC_LEARNER_CENTRAL_EVALUATION_H_

#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"
#include "cc/learner/learner.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

class CentralEvaluation {
 public:
  // Compiles what `spec` needs of `graph`. `devices` has the session's CPU; it and
  // `environment` outlive the evaluation. Tables and the like are those of the central
  // session, which has kernels for them already.
  static absl::StatusOr<std::unique_ptr<CentralEvaluation>> Make(
      const ProgramGraph& graph, const RunSpec& spec,
      const LearnerEnvironment& environment, const tensorflow::DeviceMgr* devices);

  // `feeds` and `*fetches` are in the order of the spec.
  absl::Status Run(const std::vector<tensorflow::Tensor>& feeds,
                   std::vector<tensorflow::Tensor>* fetches) const;

 private:
  CentralEvaluation(const LearnerEnvironment& environment,
                    const tensorflow::DeviceMgr* devices)
      : environment_(environment), devices_(devices) {}
  absl::Status MakeExecutor();

  const LearnerEnvironment& environment_;
  const tensorflow::DeviceMgr* const devices_;
  // In this order: the executor's kernels use what stands before it.
  TaskGraph task_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> runtime_;
  std::set<const tensorflow::OpKernel*> shared_kernels_;  // not owned
  std::unique_ptr<tensorflow::Executor> executor_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_CENTRAL_EVALUATION_H_
