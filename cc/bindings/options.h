// What the user chooses for a session, from Python.
#ifndef TENSORBOW_CC_BINDINGS_OPTIONS_H_
#define TENSORBOW_CC_BINDINGS_OPTIONS_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

// Adds register_options().
void DefineOptions(pybind11::module_* m);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_OPTIONS_H_
