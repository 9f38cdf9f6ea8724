// Averages the sums over rows that a run writes to trained variables: its gradients.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_AVERAGE_SUMS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_AVERAGE_SUMS_H_

#include <map>
#include <set>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/run_edits.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tensorbow {

// Inserts TensorBowReduceGradient ops. Optimiser ops and scatters are left out: they
// average in the task. Thread-compatible.
class SumAverages {
 public:
  // `own_batches`: each learner has a batch of its own. The others outlive this.
  SumAverages(const ProgramGraph& program, const RowTypes& types, bool own_batches,
              RunEdits* edits);

  // Averages a sum over rows, for all that take it.
  absl::Status Average(const std::string& tensor, const RowType& type);

  // Averages all sums that are written: where they leave the loss, if nothing but
  // linear functions of them is written and no node of `exchanging` follows, else
  // before the write.
  absl::Status AverageWritten(const absl::flat_hash_set<std::string>& exchanging);

  // The nodes that write sums to trained variables.
  const absl::flat_hash_set<std::string>& writes() const { return writes_; }
  // Those that write what is averaged there, or right before.
  std::set<std::string> averaging_writes() const;
  // Returns whether the node writes what has been averaged where it leaves the loss.
  bool averaged_before(const std::string& write) const {
    return averaged_before_.contains(write);
  }
  // Returns the op that averages right before the node writes, or null.
  tensorflow::NodeDef* ReductionBefore(const std::string& write) const;

  // The power of r by which a sum becomes one whose mean over learners is that over all
  // rows.
  int FactorOf(const RowType& type) const {
    return own_batches_ ? 0 : 1 - type.exponent;
  }
  tensorflow::PartialTensorShape ShapeOf(const RowType& type) const;

 private:
  // Tensors, each with the nodes that write a linear function of it, everything else in
  // the function being the same on all learners.
  using Sources = std::map<std::string, absl::flat_hash_set<std::string>>;

  Sources FindSources() const;
  bool IsAveragedHere(const RowWrite& write) const;
  // Returns what the node writes.
  std::string WrittenBy(const RowWrite& write) const;
  absl::Status AverageBefore(const RowWrite& write);

  const ProgramGraph& program_;
  const RowTypes& types_;
  const bool own_batches_;
  RunEdits* const edits_;
  absl::flat_hash_set<std::string> writes_, averaged_before_;
  absl::flat_hash_map<std::string, tensorflow::NodeDef*> reductions_;  // by write
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_AVERAGE_SUMS_H_
