// Rows of the LIBSVM format, for Python.
#ifndef TENSORBOW_CC_BINDINGS_LIBSVM_H_
#define TENSORBOW_CC_BINDINGS_LIBSVM_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

// Adds parse_libsvm().
void DefineLibsvm(pybind11::module_* m);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_LIBSVM_H_
