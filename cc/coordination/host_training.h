// The training on this host, as a coordinator sees it. An interface, so that tests of
// coordinators need no TensorFlow session.
//
// Called with the training's lock.
#ifndef TENSORBOW_CC_COORDINATION_HOST_TRAINING_H_
#define TENSORBOW_CC_COORDINATION_HOST_TRAINING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/synchroniser/algorithms/adaptive.h"
#include "cc/synchroniser/algorithms/host_merges.h"
#include "cc/synchroniser/hosts/host_rounds.h"
#include "cc/synchroniser/trained_set.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// Tensors by name, the same names, dtypes and shapes on all hosts.
using HostValues = std::map<std::string, tensorflow::Tensor>;

class HostTraining {
 public:
  virtual ~HostTraining() = default;

  virtual int num_learners() const = 0;
  // This host's own counters.
  virtual HostRounds::Counts counts() const = 0;
  // The options that all hosts share, as text.
  virtual std::string DescribeOptions() = 0;
  // The replicated variables with their types, as text; changes with num_variables().
  virtual std::string DescribeVariables() = 0;
  virtual int64_t num_variables() = 0;
  virtual bool averages_gradients() = 0;
  virtual void Warn(const std::string& text) = 0;
  // All replicas ← z before the next learning run.
  virtual void RequestRestart() = 0;

  // Returns the model: z, or the replicas where gradients are averaged. `everything`:
  // with all other values that hosts share.
  virtual absl::StatusOr<HostValues> Model(bool everything) = 0;
  virtual absl::Status SetModel(const HostValues& values, bool everything) = 0;
  // Returns the values of these variables that hosts share, after an iteration.
  virtual absl::StatusOr<HostValues> Values(const std::vector<int>& variables) = 0;
  virtual absl::Status SetValues(const std::vector<int>& variables,
                                 const HostValues& values) = 0;

  // Takes part in one iteration of the other hosts without a task.
  virtual HostRounds::Result JoinWithoutTask(const TrainedSet& set,
                                             HostRounds::Kind kind) = 0;

  // --- Of hosts that merge models.

  // Tells the mega-batch, if there is one yet, the learners of each host.
  virtual void SetHosts(const std::vector<int>& learners) = 0;
  virtual absl::StatusOr<TrainedSet> LocateModel() = 0;
  // Returns a number by which hosts recognise the variables of the model.
  virtual int64_t ModelFingerprint() = 0;
  virtual Adaptive* adaptive() = 0;
  virtual HostMerges* host_merges() = 0;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_COORDINATION_HOST_TRAINING_H_
