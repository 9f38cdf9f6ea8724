// Where the sums over rows that a run writes to trained variables leave the loss.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_WRITTEN_SUMS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_WRITTEN_SUMS_H_

#include <map>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"
#include "cc/passes/program/run_edits.h"

namespace tensorbow {

// Returns tensors, each with the nodes that write a linear function of it, everything
// else in the function being the same on all learners: averaged there, all that is
// written is. Leaves out what optimiser ops and scatters write.
std::map<std::string, absl::flat_hash_set<std::string>> WrittenSums(
    const ProgramGraph& program, const RowTypes& types, RunEdits* edits);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_WRITTEN_SUMS_H_
