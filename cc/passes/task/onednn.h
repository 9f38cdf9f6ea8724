// Gives a task oneDNN's kernels if TensorFlow does not use them by itself.
//
// TensorFlow for x86 contains oneDNN's kernels of convolutions, matrix products,
// pooling and normalisation. It uses them on processors with instructions for neural
// networks (AVX512_VNNI and later), or with TF_ENABLE_ONEDNN_OPTS=1. They are also
// faster on other processors with AVX2. They add numbers up in another order, so that
// sums are rounded differently.
#ifndef TENSORBOW_CC_PASSES_TASK_ONEDNN_H_
#define TENSORBOW_CC_PASSES_TASK_ONEDNN_H_

#include "cc/graph/task_graph.h"

namespace tensorbow {

// Makes the CPU's part of the task use them, as TensorFlow would do it. Changes nothing
// if TensorFlow has done so, if the user has set TF_ENABLE_ONEDNN_OPTS to any value, or
// on other processors. The task graph must not have been changed since it was built.
void UseOneDnn(TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_ONEDNN_H_
