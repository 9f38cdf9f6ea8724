// Makes a run take several elements of its data pipeline at once.
//
// A learner's batch then consists of whole elements that have the requested number of
// rows together (tf_ops/ops/iterator_rows_op.cc). An element qualifies if its
// components have an unknown number of rows of known shape: then nothing in the graph
// relies on that number. Others are left alone. Pure function.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_

#include <cstdint>

#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

// REQUIRES: rows >= 1.
void BatchElements(int64_t rows, tensorflow::GraphDef* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_
