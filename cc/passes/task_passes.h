// The passes over the graph of a task (cc/passes/task). Stateless.
#ifndef TENSORBOW_CC_PASSES_TASK_PASSES_H_
#define TENSORBOW_CC_PASSES_TASK_PASSES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cc/passes/pass.h"

namespace tensorbow {

// Replaces loops whose iterations are counted.
class UnrollLoopsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "UnrollLoops"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Leaves out ops on shapes that are the same for any number of rows.
class SimplifyShapesPass : public TaskPass {
 public:
  absl::string_view name() const override { return "SimplifyShapes"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Computes what follows from the shapes of the feeds, if they are known.
class FoldShapesPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FoldShapes"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Divides the task between the CPU and the accelerator.
class DivideTaskPass : public TaskPass {
 public:
  absl::string_view name() const override { return "DivideTask"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Uses oneDNN's kernels if the processor supports them.
class UseOneDnnPass : public TaskPass {
 public:
  absl::string_view name() const override { return "UseOneDnn"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Applies the optimisations that need a learner's runtime.
class OptimisePass : public TaskPass {
 public:
  absl::string_view name() const override { return "Optimise"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Fuses the ops of a sparse Adam update.
class FuseSparseAdamPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FuseSparseAdam"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Fuses the ops of an update that the program writes itself.
class FuseElementUpdatesPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FuseElementUpdates"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Replaces optimiser ops by ops that also correct or average.
class FuseUpdatesPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FuseUpdates"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Averages the gradients that updates take.
class ReduceGradientsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "ReduceGradients"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Makes updates compute the products of sparse rows.
class FuseSparseProductsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FuseSparseProducts"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Makes updates compute the products that are their gradients.
class FuseProductsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "FuseProducts"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Makes learners share one copy of variables.
class ShareVariablesPass : public TaskPass {
 public:
  absl::string_view name() const override { return "ShareVariables"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Sends gradients to the other hosts.
class SendGradientsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "SendGradients"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

// Exchanges the moments of batches between learners.
class ExchangeMomentsPass : public TaskPass {
 public:
  absl::string_view name() const override { return "ExchangeMoments"; }
  absl::StatusOr<bool> Run(const CompileInput& in, TaskGraph* task,
                           TaskTraits* traits) const override;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_PASSES_H_
