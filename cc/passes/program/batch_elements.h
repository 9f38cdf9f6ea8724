// Has a run take several elements of its data pipeline at once.
//
// The batch of a learner is then as many whole elements as have so many rows together
// (tf_ops/ops/iterator_rows_op.cc), instead of one. Elements qualify whose components
// are known to have a number of rows that is not known, of known shape: then nothing in
// the graph relies on how many there are. Others are left alone. Pure function.
#ifndef TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_
#define TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_

#include <cstdint>

#include "tensorflow/core/framework/graph.pb.h"

namespace tensorbow {

constexpr char kIteratorGetRows[] = "TensorBowIteratorGetRows";

// REQUIRES: rows >= 1.
void BatchElements(int64_t rows, tensorflow::GraphDef* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_PASSES_PROGRAM_BATCH_ELEMENTS_H_
