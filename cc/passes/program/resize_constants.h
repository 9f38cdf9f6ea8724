// Programs that are built for batches of a fixed number of rows: made to take any. Pure
// functions.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// Feeds whose shape says how many rows they have, all the same number.
struct FixedRows {
  int64_t rows = 0;             // 0: there are none, or they do not agree
  std::set<std::string> feeds;  // "x:0"
};

// `whole`: feeds that are not divided. None where another feed has any number of rows,
// which then are those of the run; but what Python functions give has any shape.
FixedRows FindFixedRows(const ProgramGraph& graph, const RunSpec& spec,
                        const std::set<std::string>& whole);

// `any` ← what `spec` needs of `graph`, with shapes that were computed from the fixed
// number of rows when the program was built (of gradients, zeros, random numbers, …)
// computed from the rows that are fed. What has the number for another reason may be
// changed, too: dividing rows by it is to be proved.
absl::Status TakeAnyRows(const ProgramGraph& graph, const RunSpec& spec,
                         const FixedRows& fixed, ProgramGraph* any);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_
