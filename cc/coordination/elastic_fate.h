// What becomes of an iteration on elastic hosts, and what they go on from when they
// have regrouped (elastic_hosts.cc).
#ifndef TENSORBOW_CC_COORDINATION_ELASTIC_FATE_H_
#define TENSORBOW_CC_COORDINATION_ELASTIC_FATE_H_

#include <cstdint>
#include <map>
#include <string>

#include "cc/synchroniser/hosts/host_rounds.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

struct ElasticFate {
  HostRounds::Fate fate = HostRounds::Fate::kCounts;
  bool again = false;       // it is lost or rehearsed, and to be made again
  bool taken_over = false;  // others have known it
};

// Why and as what a host regroups.
struct Regrouping {
  bool behind = false;      // it lacks updates that count
  bool takes_back = false;  // no host is lost: one comes back
  bool leaves = false;      // it has closed its session
  int64_t program = 0;      // what it is to train next
};

// What it has found out then.
struct Regrouped {
  bool decided = false;        // the round under way; else it has to be made again
  bool all_leave = false;      // of the hosts that have trained
  bool same_program = true;    // they are to train what this host is
  int64_t set_iterations = 0;  // of what they have trained last
};

// Another host's model and counts, by name.
using InheritedValues = std::map<std::string, tensorflow::Tensor>;

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_ELASTIC_FATE_H_
