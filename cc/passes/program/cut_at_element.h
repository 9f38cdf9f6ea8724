// Cuts what made a task's element out of the program. Pure functions.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_
#define TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// What stands in a task for an op that made what the task is fed.
constexpr char kElement[] = "TensorBowElement";

// `cut` ← what `spec`, which is fed an element, needs of `graph`, with kElement in the
// place of the ops that made it: TensorFlow's optimiser would have constants wait for
// those. Not done, and false, where none is fed.
absl::StatusOr<bool> CutAtElement(const ProgramGraph& graph, const RunSpec& spec,
                                  ProgramGraph* cut);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_
