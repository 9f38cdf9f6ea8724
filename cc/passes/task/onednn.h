// Gives a task oneDNN's kernels where TensorFlow does not use them by itself.
//
// TensorFlow for x86 has oneDNN's kernels of convolutions, matrix products, pooling and
// normalisation in it. It uses them on processors with instructions for neural networks
// (AVX512_VNNI and later), or with TF_ENABLE_ONEDNN_OPTS=1. They are faster on others
// with AVX2, too. They add numbers up in another order, so that sums are rounded
// differently.
#ifndef TENSORBOW_CC_PASSES_TASK_ONEDNN_H_
#define TENSORBOW_CC_PASSES_TASK_ONEDNN_H_

#include "cc/graph/task_graph.h"

namespace tensorbow {

// Has the CPU's part of the task use them, as TensorFlow would do it. Changes nothing
// if TensorFlow has done so, if the user has set TF_ENABLE_ONEDNN_OPTS, whatever to,
// and on other processors. The task graph must not have been changed since it was
// built.
void UseOneDnn(TaskGraph* task);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_TASK_ONEDNN_H_
