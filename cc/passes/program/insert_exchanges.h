// Inserts the exchanges and rescales that row types require. Learners that divide the
// rows then compute the result of one learner.
//
// Sums without a later exchange are averaged as gradients (TensorBowReduceGradient),
// once all gradients have been computed. All other values are exchanged before
// (TensorBowExchange), in the order that ExchangeMoments() chooses.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "cc/analysis/row_types/row_types.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

enum class Exchanging {
  kAll,         // every value that row types require
  kGradients,   // only gradients, as between hosts
  kOwnBatches,  // only gradients, of one batch per learner
  kNothing,     // no values: models are averaged
};

struct InsertedExchanges {
  // A learner estimates a value of all rows from its own, since an exchange is not
  // wanted.
  bool estimates = false;
  // The nodes that write a sum over rows to a trained variable and average it
  // themselves, not earlier.
  std::set<std::string> averaging_writes;
};

// `exchanged` ← the part of `graph` that `spec` needs, with the exchanges and rescales
// of `types`. InvalidArgument if a wanted exchange cannot be placed; the message says
// which. Pure function.
absl::StatusOr<InsertedExchanges> InsertExchanges(const ProgramGraph& graph,
                                                  const RunSpec& spec,
                                                  const RowTypes& types,
                                                  Exchanging exchanging,
                                                  ProgramGraph* exchanged);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_INSERT_EXCHANGES_H_
