// Makes learners that divide the rows of a run compute what one learner does: inserts
// the exchanges and rescales that row types ask for.
//
// Sums that no other exchange follows from are averaged as gradients are
// (TensorBowReduceGradient), once all gradients have been computed. All other values
// are exchanged before (TensorBowExchange), in the order that ExchangeMoments()
// settles.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

enum class Exchanging {
  kAll,         // every value that row types ask for
  kGradients,   // gradients alone, as between hosts
  kOwnBatches,  // gradients alone, of a batch for each learner
  kNothing,     // no values: models are averaged
};

struct InsertedExchanges {
  // True if a learner estimates a value of all rows from its own, in the place of an
  // exchange that is not wanted.
  bool estimates = false;
  // The nodes that write a sum over rows to a trained variable which is averaged where
  // they are, not before.
  std::set<std::string> averaging_writes;
};

// `exchanged` ← what `spec` needs of `graph`, with the exchanges and rescales of
// `types`. InvalidArgument if an exchange that is wanted cannot be placed; the message
// says which. Pure function.
absl::StatusOr<InsertedExchanges> InsertExchanges(const ProgramGraph& graph,
                                                  const RunSpec& spec,
                                                  const RowTypes& types,
                                                  Exchanging exchanging,
                                                  ProgramGraph* exchanged);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
