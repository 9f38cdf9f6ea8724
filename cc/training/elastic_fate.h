// What becomes of an iteration on elastic hosts, and what they go on from when they
// have regrouped (elastic_hosts.cc).
#ifndef TENSORBOW_CC_TRAINING_ELASTIC_FATE_H_
#define TENSORBOW_CC_TRAINING_ELASTIC_FATE_H_

#include <map>
#include <string>

#include "cc/synchroniser/host_rounds.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

struct ElasticFate {
  HostRounds::Fate fate = HostRounds::Fate::kCounts;
  bool again = false;       // it is lost or rehearsed, and to be made again
  bool taken_over = false;  // others have known it
};

// Another host's model and counts, by name.
using InheritedValues = std::map<std::string, tensorflow::Tensor>;

}  // namespace tensorbow

#endif  // TENSORBOW_CC_TRAINING_ELASTIC_FATE_H_
