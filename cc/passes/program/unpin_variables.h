// Moves variables that a program keeps on the CPU to the learners' accelerator. Pure
// function.
//
// Programs for several GPUs pin their variables to the CPU, which all GPUs reach. Here
// each learner trains variables of its own, beside its model.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_UNPIN_VARIABLES_H_
#define TENSORBOW_CC_PASSES_PROGRAM_UNPIN_VARIABLES_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

// Clears the requests for the session's CPU of these trained variables, of their slots
// and of the ops that take them or belong beside them. Returns whether there are any.
bool UnpinVariables(const std::vector<std::string>& trained,
                    tensorflow::GraphDef* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_UNPIN_VARIABLES_H_
