// Cuts the ops that made a task's element out of the program. Pure functions.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_
#define TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_

#include "absl/status/statusor.h"
#include "cc/graph/program_graph.h"

namespace tensorbow {

// The op in a task that replaces the source of a fed element.
constexpr char kElement[] = "TensorBowElement";

// `cut` ← the part of `graph` that `spec`, which is fed an element, needs. kElement
// replaces the ops that made it: TensorFlow's optimiser would make constants wait for
// them. Returns false, without a change, if no element is fed.
absl::StatusOr<bool> CutAtElement(const ProgramGraph& graph, const RunSpec& spec,
                                  ProgramGraph* cut);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_CUT_AT_ELEMENT_H_
