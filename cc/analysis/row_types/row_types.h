// Types every tensor of a run: the type relates learners' values to those of all rows.
// Finds the exchanges and rescales that make dividing the rows exact. Nothing is
// executed.
#ifndef TENSORBOW_CC_ANALYSIS_ROW_TYPES_ROW_TYPES_H_
#define TENSORBOW_CC_ANALYSIS_ROW_TYPES_ROW_TYPES_H_

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "cc/analysis/row_types/types.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// A feed of a run, and how its values reach the learners.
struct FeedOfRows {
  std::string tensor;
  bool divided = false;     // its first axis has the rows
  std::optional<int> rank;  // the rank of the fed value, if it is known
  // The shape of a row, if the graph has no shape; empty: not known.
  std::vector<int64_t> of_row = {};

  friend bool operator==(const FeedOfRows& a, const FeedOfRows& b) {
    return a.tensor == b.tensor && a.divided == b.divided && a.rank == b.rank &&
           a.of_row == b.of_row;
  }
};

struct RowsOfRun {
  std::vector<FeedOfRows> feeds;
  // Sparse feeds whose rows are divided: indices, values, shape.
  std::vector<std::array<std::string, 3>> sparse;

  friend bool operator==(const RowsOfRun& a, const RowsOfRun& b) {
    return a.feeds == b.feeds && a.sparse == b.sparse;
  }
};

// A requirement of an op if learners divide the rows.
struct RowNeed {
  enum class Kind {
    kRescale,  // the input times r^-exponent
    kGather,   // the slices of all learners, in the order of their indices
    kCount,    // the number of all rows, for a mean over rows chosen by data
    kMoments,  // the moments of all rows, in a fused batch normalisation
    kDraw,     // random numbers that are the same on all learners
    kWhole,    // sizes computed for all rows
    kAllRows,  // the rows of all learners, one after the other on `axis`
    kOwnRows,  // the learner's own rows of all, on `axis`
    kAssumed,  // indices that stay within their row, which is not checked
    kTwoRows,  // at least two rows for each learner, or all rows for one
  };
  Kind kind = Kind::kRescale;
  std::string node;  // its path
  int input = -1;
  int exponent = 0;  // of kRescale and kAllRows
  RowKind of = RowKind::kUntyped;
  int axis = 0;
};

// A value that a run writes to a variable.
struct RowWrite {
  std::string node;
  std::string variable;
  int input = -1;
  bool trained = false;  // through its gradient
  RowType type;          // kSame, kSum with exponent 1, kZero; else kUnknown
};

struct RowTypes {
  std::shared_ptr<SizeTable> sizes;
  // The types by tensor, "node:index"; tensors in functions are below the path of the
  // call.
  absl::flat_hash_map<std::string, RowType> types;
  // Partial tensors that learners exchange.
  std::vector<std::string> exchanges;
  std::vector<RowNeed> needs;
  std::vector<RowWrite> writes;
  // The reason why the rows cannot be divided; null if they can.
  std::shared_ptr<const RowReason> unknown;

  // Returns null if the tensor is not computed.
  const RowType* Find(absl::string_view tensor) const;
  std::string Describe(absl::string_view tensor) const;
};

// Types a run. `trainable`: names of variables. `gathers`: whether an op that mixes
// rows may be given those of all learners. NotFound if `spec` names a node that does
// not exist.
absl::StatusOr<RowTypes> TypeRows(const ProgramGraph& program, const RunSpec& spec,
                                  const absl::flat_hash_set<std::string>& trainable,
                                  const RowsOfRun& rows, bool gathers);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_ROW_TYPES_H_
