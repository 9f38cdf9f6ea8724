// Finds loops whose number of iterations is a constant.
#ifndef TENSORBOW_CC_PASSES_LOOPS_COUNT_ITERATIONS_H_
#define TENSORBOW_CC_PASSES_LOOPS_COUNT_ITERATIONS_H_

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// `counted` ← the part of `graph` that `spec` needs, in which such loops have
// kIterationsAttribute and are not lowered by TensorFlow; UnrollLoops() replaces them.
// A loop that writes, draws random numbers, has another side effect or consists of
// other functions stays as it is, and so does one of too many ops. Loops of TensorFlow
// 1 become functions first; if one of them stays, all do. Returns whether there are
// any. Pure function.
absl::StatusOr<bool> CountIterations(const ProgramGraph& graph, const RunSpec& spec,
                                     ProgramGraph* counted);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_COUNT_ITERATIONS_H_
