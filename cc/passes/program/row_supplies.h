// Provides ops with values of all rows: rows, slices, counts, common draws.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_ROW_SUPPLIES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_ROW_SUPPLIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/run_edits.h"

namespace tensorbow {

// Returns whether learners can average values of the type.
bool CanBeReduced(tensorflow::DataType type);

// Returns the attribute `how` of an exchange of such values.
const char* HowOf(RowKind kind);

// Edits the inputs of ops. Each method returns InvalidArgument if learners cannot
// exchange the value. Thread-compatible.
class RowSupplies {
 public:
  // All arguments outlive this.
  RowSupplies(const ProgramGraph& program, const RowTypes& types, RunEdits* edits)
      : program_(program), types_(types), edits_(edits) {}

  // Gives all learners the numbers that the first one draws.
  absl::Status DrawOnce(const std::string& node);
  // Turns a mean over rows chosen by data into a sum, divided by the number of these
  // rows on all learners.
  absl::Status CountAll(const std::string& name);
  // Makes a write of slices write those of all learners.
  absl::Status GatherSlices(const RowNeed& need);
  // Gives an op the rows of all learners.
  absl::Status TakeAllRows(const RowNeed& need);
  // Gives an op the learner's own part of all rows.
  absl::Status TakeOwnRows(const RowNeed& need);

 private:
  struct Input {
    tensorflow::NodeDef* node;  // the user of the input
    std::string tensor;
    tensorflow::DataType dtype;
  };
  absl::StatusOr<Input> InputOf(const RowNeed& need);

  const ProgramGraph& program_;
  const RowTypes& types_;
  RunEdits* const edits_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_ROW_SUPPLIES_H_
