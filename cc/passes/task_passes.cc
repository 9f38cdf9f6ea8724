#include "cc/passes/task_passes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/passes/loops/shape_ops.h"
#include "cc/passes/loops/unroll_loops.h"
#include "cc/passes/task/exchange_moments.h"
#include "cc/passes/task/fold_shapes.h"
#include "cc/passes/task/fuse_element_updates.h"
#include "cc/passes/task/fuse_products.h"
#include "cc/passes/task/fuse_sparse_adam.h"
#include "cc/passes/task/fuse_sparse_products.h"
#include "cc/passes/task/fuse_updates.h"
#include "cc/passes/task/onednn.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the number of nodes that a task's graphs have ever had: it grows with every
// change, since passes replace nodes.
int64_t NodesEver(const TaskGraph& task) {
  int64_t nodes = 0;
  for (const TaskPart& part : task.parts) nodes += part.graph->num_node_ids();
  return nodes;
}

bool AveragesInRuns(const CompileInput& in) {
  return in.averages == Traits::Averages::kModels ||
         in.averages == Traits::Averages::kGradients;
}

bool AveragesGradients(const CompileInput& in) {
  return in.averages == Traits::Averages::kGradients;
}

// Returns InvalidArgument if a trained variable is not on the accelerator, which
// averages those in its memory.
absl::Status CheckTrained(const CompileInput& in, const TaskGraph& task) {
  const std::vector<std::string> trained = TrainedVariables(in.analysis);
  for (const TaskPart& part : task.parts) {
    if (part.device == in.accelerator) continue;
    for (const tf::Node* node : part.graph->op_nodes()) {
      if (std::count(trained.begin(), trained.end(), node->name()) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", node->name(), "' is trained on the CPU, where learners on ",
          in.accelerator->device_type(), "s do not average it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> UnrollLoopsPass::Run(const CompileInput& in, TaskGraph* task,
                                          TaskTraits* traits) const {
  return UnrollLoops(/*same_bits=*/in.alone, task);
}

absl::StatusOr<bool> SimplifyShapesPass::Run(const CompileInput& in, TaskGraph* task,
                                             TaskTraits* traits) const {
  // A task whose shapes are wrong fails when it is executed, with a better message.
  return SimplifyShapes(task).value_or(false);
}

absl::StatusOr<bool> FoldShapesPass::Run(const CompileInput& in, TaskGraph* task,
                                         TaskTraits* traits) const {
  if (in.shapes == nullptr) return false;
  task->fixed_shapes = true;
  return FoldShapes(*in.shapes, task);
}

absl::StatusOr<bool> DivideTaskPass::Run(const CompileInput& in, TaskGraph* task,
                                         TaskTraits* traits) const {
  TF_RETURN_IF_ERROR(in.divide(task));
  if (in.accelerator == nullptr) return false;
  if (AveragesInRuns(in)) TF_RETURN_IF_ERROR(CheckTrained(in, *task));
  return true;
}

absl::StatusOr<bool> UseOneDnnPass::Run(const CompileInput& in, TaskGraph* task,
                                        TaskTraits* traits) const {
  if (in.alone) return false;
  UseOneDnn(task);
  return true;
}

absl::StatusOr<bool> OptimisePass::Run(const CompileInput& in, TaskGraph* task,
                                       TaskTraits* traits) const {
  in.optimise(task);
  return true;
}

absl::StatusOr<bool> FuseSparseAdamPass::Run(const CompileInput& in, TaskGraph* task,
                                             TaskTraits* traits) const {
  const int64_t before = NodesEver(*task);
  TF_RETURN_IF_ERROR(FuseSparseAdam(task));
  return NodesEver(*task) != before;
}

absl::StatusOr<bool> FuseElementUpdatesPass::Run(const CompileInput& in,
                                                 TaskGraph* task,
                                                 TaskTraits* traits) const {
  TF_ASSIGN_OR_RETURN(const auto replaced,
                      FuseElementUpdates(TrainedVariables(in.analysis),
                                         /*same_bits=*/in.alone, task));
  for (const auto& [write, update] : replaced) {
    if (traits->averaged.has_value() && traits->averaged->erase(write) > 0) {
      traits->averaged->insert(update);
    }
  }
  return !replaced.empty();
}

absl::StatusOr<bool> FuseUpdatesPass::Run(const CompileInput& in, TaskGraph* task,
                                          TaskTraits* traits) const {
  if (!AveragesInRuns(in)) return false;
  const int64_t before = NodesEver(*task);
  const auto fuses = [averages_models =
                          !AveragesGradients(in)](const tf::Node& update) {
    return averages_models || IsOfGradient(update);
  };
  TF_ASSIGN_OR_RETURN(traits->corrects_itself,
                      FuseUpdates(TrainedVariables(in.analysis), fuses, task));
  return NodesEver(*task) != before;
}

absl::StatusOr<bool> ReduceGradientsPass::Run(const CompileInput& in, TaskGraph* task,
                                              TaskTraits* traits) const {
  if (!AveragesGradients(in)) return false;
  const Averaging averaging =
      in.options.num_hosts() > 1 ? Averaging::kBefore : Averaging::kInUpdates;
  TF_ASSIGN_OR_RETURN(
      traits->num_gradients,
      ReduceGradients(TrainedVariables(in.analysis), traits->whole_feeds,
                      traits->averaged, averaging, task));
  return true;
}

absl::StatusOr<bool> FuseSparseProductsPass::Run(const CompileInput& in,
                                                 TaskGraph* task,
                                                 TaskTraits* traits) const {
  const int64_t before = NodesEver(*task);
  // One learner computes the same as a stock session.
  const OwnUpdates own = AveragesInRuns(in) ? OwnUpdates::kKeep
                         : in.alone         ? OwnUpdates::kFuseWithSameBits
                                            : OwnUpdates::kFuse;
  TF_RETURN_IF_ERROR(FuseSparseProducts(own, task));
  return NodesEver(*task) != before;
}

absl::StatusOr<bool> FuseProductsPass::Run(const CompileInput& in, TaskGraph* task,
                                           TaskTraits* traits) const {
  // A fused product is computed on one thread.
  if (!AveragesInRuns(in) || in.threads != 1) return false;
  const int64_t before = NodesEver(*task);
  TF_RETURN_IF_ERROR(
      FuseProducts(/*with_input_gradients=*/!AveragesGradients(in), task));
  return NodesEver(*task) != before;
}

absl::StatusOr<bool> ShareVariablesPass::Run(const CompileInput& in, TaskGraph* task,
                                             TaskTraits* traits) const {
  if (!AveragesGradients(in) || in.on_accelerators) return false;
  traits->shared = in.agree(FindSharableVariables(*task));
  TF_RETURN_IF_ERROR(ShareVariables(traits->shared, task, &traits->num_gradients));
  return !traits->shared.empty();
}

absl::StatusOr<bool> SendGradientsPass::Run(const CompileInput& in, TaskGraph* task,
                                            TaskTraits* traits) const {
  if (!AveragesGradients(in) || in.on_accelerators || in.options.num_hosts() == 1) {
    return false;
  }
  TF_ASSIGN_OR_RETURN(traits->sent, SendGradients(task, &traits->num_gradients));
  return true;
}

absl::StatusOr<bool> ExchangeMomentsPass::Run(const CompileInput& in, TaskGraph* task,
                                              TaskTraits* traits) const {
  if (!traits->exchanges || in.on_accelerators) return false;
  TF_RETURN_IF_ERROR(ExchangeMoments(task, &traits->num_gradients));
  return true;
}

}  // namespace tensorbow
