// Where a task graph updates a variable.
#ifndef TENSORBOW_CC_REWRITE_UPDATES_H_
#define TENSORBOW_CC_REWRITE_UPDATES_H_

#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// The one op that writes the variable, if there is only one and it takes the variable
// directly as its first input, not through control flow or a function: then executing
// it once a task is all that can happen to the variable. Else null.
tensorflow::Node* OnlyUpdate(const tensorflow::Node& variable);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_UPDATES_H_
