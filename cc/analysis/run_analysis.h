// Classifies a run by its effects on variables, from the graph alone.
//
// A run is *learning* if it updates a trainable variable by an optimiser op (…Apply…).
// Without one, the new value must depend on reading trainable variables. That is
// - an AssignAdd, AssignSub or scatter whose operand depends on a trainable variable,
// or
// - an Assign whose value depends on the very variable assigned. (Copying one variable
//   into another, as initialisers and target networks do, is a write.)
//
// Without an optimiser op, the new value of a trainable variable must also depend on
// more than variables and constants: on a feed, on data or on random numbers. Otherwise
// every learner would compute the same, as in clipping weights, and the run is a write.
//
// A run that assigns variables without learning is a *write*; everything else is a
// *read*. Pure functions.
#ifndef TENSORBOW_CC_ANALYSIS_RUN_ANALYSIS_H_
#define TENSORBOW_CC_ANALYSIS_RUN_ANALYSIS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "cc/graph/run_graph.h"

namespace tensorbow {

// The effects of a run on one variable.
struct VariableUse {
  const tensorflow::NodeDef* node = nullptr;  // of the program graph
  bool written = false;
  bool trained = false;    // updated by learning: belongs to the replica's model
  bool generator = false;  // holds the state of a random number generator
  bool captured = false;   // by a data pipeline, which also reads it after the run
};

struct RunAnalysis {
  enum class Kind { kRead, kWrite, kLearning };
  Kind kind = Kind::kRead;

  std::map<std::string, VariableUse> variables;  // reached by the run, by node name

  // The run may wait for another run of the same session (queues, stages, …).
  bool may_block = false;
  // The run waits for tf.data.
  bool reads_iterator = false;
  // The run takes elements out of pipelines, queues, staging areas or readers; the
  // second: a function that it calls does.
  bool takes_data = false;
  bool calls_take_data = false;
  // The run calls Python functions, other than in functions of the graph.
  bool calls_python = false;
  // The reason why learners cannot execute this learning run; empty if they can.
  std::string central_only;

  // Nodes whose kernel exists once per session (queues, iterators, tables, …).
  std::vector<std::string> shared_kernels;
  // A kernel keeps the state of a random number generator.
  bool keeps_random_state = false;

  // Optimisers update variables from variables alone: no feeds, no data, no random
  // numbers. All replicas would be trained alike.
  bool trains_alike = false;
  // The devices that the program requests by number, "/GPU:1"; sorted.
  std::vector<std::string> devices;

  // Tensors that are an optimiser's learning rate, can change between runs and can be
  // evaluated on their own without side effects.
  std::vector<std::string> learning_rates;
  // The learning-rate input of each node that updates a trained variable, or computes
  // the operand of its update; and an update whose rate is not known, if there is one.
  std::map<std::string, int> rate_inputs;
  std::string without_rate;
  // Every trained variable is updated by plain gradient descent, without momentum
  // or adaptive slots.
  bool plain_gradient_descent = true;
  // The largest constant momentum of the learners' optimisers, or 0.
  double optimiser_momentum = 0;
};

// Returns the variables that the run trains, in the analysis' order.
inline std::vector<std::string> TrainedVariables(const RunAnalysis& analysis) {
  std::vector<std::string> trained;
  for (const auto& [name, use] : analysis.variables) {
    if (use.trained) trained.push_back(name);
  }
  return trained;
}

// Analyses a run. `trainable`: names of trainable variables (node names). `forced`: the
// kind of the run, whatever the graph says; a learning run that is forced trains all
// trainable floating-point variables that it writes.
absl::Status AnalyseRun(const RunGraph& run,
                        const absl::flat_hash_set<std::string>& trainable,
                        std::optional<RunAnalysis::Kind> forced, RunAnalysis* analysis);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ANALYSIS_RUN_ANALYSIS_H_
