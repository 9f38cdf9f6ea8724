// The runtime's errors in Python.
#ifndef TENSORBOW_CC_BINDINGS_ERRORS_H_
#define TENSORBOW_CC_BINDINGS_ERRORS_H_

#include "absl/status/status.h"

namespace tensorbow {

// Raises TensorFlow's exception of the status's kind, unless it is OK.
void RaiseIfError(const absl::Status& status);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_ERRORS_H_
