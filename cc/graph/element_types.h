// The storage types of TensorFlow's element types.
#ifndef TENSORBOW_CC_GRAPH_ELEMENT_TYPES_H_
#define TENSORBOW_CC_GRAPH_ELEMENT_TYPES_H_

#include "cc/support/element.h"
#include "tensorflow/core/framework/types.h"

namespace tensorbow {

// REQUIRES: a real floating-point type of 16 to 64 bits.
inline ElementType ElementTypeOf(tensorflow::DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_DOUBLE:
      return ElementType::kFloat64;
    case tensorflow::DT_HALF:
      return ElementType::kFloat16;
    case tensorflow::DT_BFLOAT16:
      return ElementType::kBfloat16;
    default:
      return ElementType::kFloat32;
  }
}

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_ELEMENT_TYPES_H_
