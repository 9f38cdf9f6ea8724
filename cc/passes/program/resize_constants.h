// Makes programs that are built for batches of a fixed number of rows accept any
// number. Pure functions.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "cc/graph/run_graph.h"

namespace tensorbow {

// Feeds whose shape fixes their number of rows, the same for all.
struct FixedRows {
  int64_t rows = 0;             // 0: there are none, or they differ
  std::set<std::string> feeds;  // "x:0"
};

// Finds the feeds. `whole`: feeds that are not divided. Returns none if another feed
// has an open number of rows, which are then those of the run. Results of Python
// functions, whose shape is always open, do not count.
FixedRows FindFixedRows(const RunGraph& run, const std::set<std::string>& whole);

// `any` ← the part of `graph` that `spec` needs. Shapes that depended on the fixed
// number when the program was built (of gradients, zeros, random numbers, …) follow
// from the fed rows. Other values that equal the number may be changed, too: dividing
// rows by it has to be proved.
absl::Status TakeAnyRows(const ProgramGraph& graph, const RunSpec& spec,
                         const FixedRows& fixed, ProgramGraph* any);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_RESIZE_CONSTANTS_H_
