// From a run of the program's graph to the graph a learner executes.
//
// The graph is pruned, placed and optimised once, exactly as a stock session would do
// it (the same passes, hence the same kernels); every learner gets a copy in which its
// variables live in a container of its own and its random ops draw numbers of their
// own. Names are kept, so error messages and checkpoints look the same. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_
#define TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "cc/rewrite/program_graph.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// What every learner's copy is made from.
struct TaskGraph {
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions;
  std::unique_ptr<tensorflow::Graph> graph;  // uses `functions`
  tensorflow::DataTypeVector feed_types;     // in the order of the spec
  tensorflow::DataTypeVector fetch_types;
};

// Prunes, places and optimises. Every node ends up on `device`, one of `devices`.
absl::Status BuildTaskGraph(const ProgramGraph& program, const RunSpec& spec,
                            const tensorflow::SessionOptions& options,
                            const tensorflow::DeviceSet& devices,
                            tensorflow::Device* device, TaskGraph* task);

// The graph optimisations that need a function library runtime (constant folding,
// inlining); in place, once per task graph.
void OptimiseTaskGraph(const tensorflow::SessionOptions& options,
                       tensorflow::FunctionLibraryRuntime* runtime, TaskGraph* task);

// How one learner's copy differs.
struct Specialisation {
  int learner = 0;
  // Whether the learner has variables of its own (else it uses the central ones).
  bool own_variables = true;
  // Whether the learner's random ops have streams of their own, which can be saved
  // (else their kernels keep the state, as in a stock session).
  bool own_random_state = true;
  // Makes the random ops that the program left unseeded reproducible.
  std::optional<int64_t> seed;
};

// The container that holds learner `learner`'s copies of the variables that the
// program keeps in `container`.
std::string LearnerContainer(int learner, const std::string& container);

// Copies the library and the graph for one learner; `graph` uses `functions`.
absl::Status SpecialiseTaskGraph(
    const TaskGraph& task, const Specialisation& specialisation,
    std::unique_ptr<tensorflow::FunctionLibraryDefinition>* functions,
    std::unique_ptr<tensorflow::Graph>* graph);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_
