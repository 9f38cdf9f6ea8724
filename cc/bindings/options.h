// The choices of a user for a session, filled in from Python attribute by attribute.
#ifndef TENSORBOW_CC_BINDINGS_OPTIONS_H_
#define TENSORBOW_CC_BINDINGS_OPTIONS_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

// Adds Options, AdaptiveOptions and register_options().
void DefineOptions(pybind11::module_* m);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_OPTIONS_H_
