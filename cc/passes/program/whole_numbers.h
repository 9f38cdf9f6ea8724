// Numbers of all rows instead of those that a learner computes from its own rows.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_WHOLE_NUMBERS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_WHOLE_NUMBERS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/run_edits.h"

namespace tensorbow {

// The edits. Thread-compatible.
class WholeNumbers {
 public:
  // `exchanges`: whether learners may add numbers up; otherwise each uses its own as an
  // estimate. The other arguments outlive this.
  WholeNumbers(const ProgramGraph& program, const RowTypes& types, bool exchanges,
               RunEdits* edits)
      : program_(program), types_(types), exchanges_(exchanges), edits_(edits) {}

  // Adds the nodes that compute the tensor from numbers of all rows; returns its name.
  // InvalidArgument if it is computed from more than numbers of rows.
  absl::StatusOr<std::string> Of(const std::string& tensor);

 private:
  // Adds `made`, a copy of the tensor's op that takes numbers of all rows.
  absl::Status AddCopy(const TensorName& tensor, const std::string& made);

  const ProgramGraph& program_;
  const RowTypes& types_;
  const bool exchanges_;
  RunEdits* const edits_;
  std::map<std::string, std::string> wholes_;  // by tensor
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_WHOLE_NUMBERS_H_
