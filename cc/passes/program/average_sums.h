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

// Inserts TensorBowReduceGradient ops. Optimiser ops and scatters need none: they
// average in the task. Thread-compatible.
class SumAverages {
 public:
  // `own_batches`: each learner has a batch of its own. The other arguments outlive
  // this.
  SumAverages(const ProgramGraph& program, const RowTypes& types, bool own_batches,
              RunEdits* edits);

  // Averages a sum over rows for all of its users.
  absl::Status Average(const std::string& tensor, const RowType& type);

  // Averages all sums that are written: at the source, if all writes are linear
  // functions of it and no node of `exchanging` follows; otherwise before the write.
  absl::Status AverageWritten(const absl::flat_hash_set<std::string>& exchanging);

  // Returns the nodes that write sums to trained variables.
  const absl::flat_hash_set<std::string>& writes() const { return writes_; }
  // Returns the nodes whose value is averaged in the write, or right before it.
  std::set<std::string> averaging_writes() const;
  // Returns whether the value of the write is averaged at the source.
  bool averaged_before(const std::string& write) const {
    return averaged_before_.contains(write);
  }
  // Returns the op that averages right before the write, or null.
  tensorflow::NodeDef* ReductionBefore(const std::string& write) const;

  // Returns the power of r that scales a sum so that its mean over learners is the mean
  // over all rows.
  int FactorOf(const RowType& type) const {
    return own_batches_ ? 0 : 1 - type.exponent;
  }
  tensorflow::PartialTensorShape ShapeOf(const RowType& type) const;

 private:
  // Tensors, each with the nodes that write a linear function of it. Everything else in
  // the function is the same on all learners.
  using Sources = std::map<std::string, absl::flat_hash_set<std::string>>;

  Sources FindSources() const;
  bool IsAveragedHere(const RowWrite& write) const;
  // Returns the tensor that the node writes.
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
