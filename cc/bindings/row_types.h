// Row types of a graph, for Python.
#ifndef TENSORBOW_CC_BINDINGS_ROW_TYPES_H_
#define TENSORBOW_CC_BINDINGS_ROW_TYPES_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

void DefineRowTypes(pybind11::module_* module);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_ROW_TYPES_H_
