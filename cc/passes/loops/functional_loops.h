// TensorFlow 1's loops as ops that name functions.
#ifndef TENSORBOW_CC_PASSES_LOOPS_FUNCTIONAL_LOOPS_H_
#define TENSORBOW_CC_PASSES_LOOPS_FUNCTIONAL_LOOPS_H_

#include "absl/status/status.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// Replaces every loop of Enter, Merge, Switch, NextIteration and Exit ops by a While
// op. Its results keep the names of the Exit ops. After an error the graph is
// undefined.
absl::Status MakeLoopsFunctional(tensorflow::Graph* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_LOOPS_FUNCTIONAL_LOOPS_H_
