// Types every tensor of a run by how learners' values relate to those of all rows, and
// finds the exchanges and rescales that make dividing the rows exact. Nothing is
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

// A feed of a run: how its values reach the learners.
struct FeedOfRows {
  std::string tensor;
  bool divided = false;     // its first axis has the rows
  std::optional<int> rank;  // of the value that is fed, if it is known
  // The shape of a row, where the graph has no shape; empty: not known.
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

// Something that an op needs where learners divide the rows.
struct RowNeed {
  enum class Kind {
    kRescale,  // input times r^-exponent
    kGather,   // the slices of all learners, by their indices
    kCount,    // a mean over rows that data choose: by the number of all of them
    kMoments,  // the moments of all rows, in a fused batch normalisation
    kDraw,     // random numbers that are the same on all learners
    kWhole,    // sizes computed for all rows
    kAllRows,  // the rows of all learners, one after the other on `axis`
    kOwnRows,  // the learner's own rows of all, on `axis`
    kAssumed,  // indices that stay within their row, which nobody checks
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
  bool trained = false;  // by its gradient
  RowType type;          // kSame, kSum with exponent 1, kZero; else kUnknown
};

struct RowTypes {
  std::shared_ptr<SizeTable> sizes;
  // By tensor, "node:index"; those in functions below the path of the call.
  absl::flat_hash_map<std::string, RowType> types;
  // Partial tensors that learners exchange.
  std::vector<std::string> exchanges;
  std::vector<RowNeed> needs;
  std::vector<RowWrite> writes;
  // Why the rows cannot be divided; null if they can.
  std::shared_ptr<const RowReason> unknown;

  // Null if the tensor is not computed.
  const RowType* Find(absl::string_view tensor) const;
  std::string Describe(absl::string_view tensor) const;
};

// `trainable`: names of variables. `gathers`: an op that mixes rows may be given those
// of all learners. NotFound if `spec` names what the graph has not.
absl::StatusOr<RowTypes> TypeRows(const ProgramGraph& program, const RunSpec& spec,
                                  const absl::flat_hash_set<std::string>& trainable,
                                  const RowsOfRun& rows, bool gathers);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_ROW_TYPES_ROW_TYPES_H_
