// Adds the hosts of a cluster to the Python module.
#ifndef TENSORBOW_CC_BINDINGS_CLUSTER_H_
#define TENSORBOW_CC_BINDINGS_CLUSTER_H_

#include <pybind11/pybind11.h>

namespace tensorbow {

void DefineCluster(pybind11::module_* m);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_BINDINGS_CLUSTER_H_
