// Makes learners that divide the rows of a run compute what one learner does: inserts
// the exchanges and rescales that row types ask for.
//
// A tensor that nothing of rows follows from is exchanged where gradients are
// (TensorBowReduceGradient): after all of them have been computed. All others are
// exchanged before (TensorBowExchange); NormaliseTogether() settles their order.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

enum class Exchanging {
  kAll,
  kGradients,   // only where gradients are exchanged, as between hosts
  kOwnBatches,  // likewise; their mean over batches of the learners' own
  kNothing,     // models are averaged
};

// `exchanged` ← what `spec` needs of `graph`, with the exchanges and rescales of
// `types`. In the place of an exchange that is not wanted a learner estimates the value
// of all rows from its own: returns whether there is one. InvalidArgument if an
// exchange that is wanted cannot be placed; the message says which. Pure function.
absl::StatusOr<bool> InsertExchanges(const ProgramGraph& graph, const RunSpec& spec,
                                     const RowTypes& types, Exchanging exchanging,
                                     ProgramGraph* exchanged);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
