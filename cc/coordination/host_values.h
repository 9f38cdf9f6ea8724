// Values of tensors that one host gives to all others.
#ifndef TENSORBOW_CC_COORDINATION_HOST_VALUES_H_
#define TENSORBOW_CC_COORDINATION_HOST_VALUES_H_

#include <map>
#include <string>

#include "cc/synchroniser/hosts/hosts.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// `values`, which have the same names, types and shapes on all hosts, ← those of the
// host `rank`, byte for byte: the other hosts add zeros. Returns what went wrong, and
// the values are of no use then, or an empty text.
std::string TakeValuesOf(Hosts* hosts, int rank,
                         std::map<std::string, tensorflow::Tensor>* values);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_HOST_VALUES_H_
