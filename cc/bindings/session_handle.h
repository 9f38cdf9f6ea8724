// An existing session for Python: its state, and the actions on it.
#ifndef TENSORBOW_CC_BINDINGS_SESSION_HANDLE_H_
#define TENSORBOW_CC_BINDINGS_SESSION_HANDLE_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

// Adds the class SessionHandle. REQUIRES: PreparedRun has been added.
void DefineSessionHandle(pybind11::module_* m);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_SESSION_HANDLE_H_
