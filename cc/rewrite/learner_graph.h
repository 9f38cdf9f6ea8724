// From a run of the program's graph to the graph a learner executes.
//
// The graph is pruned, placed and optimised once, exactly as a stock session would do
// it (the same passes, hence the same kernels; see onednn.h for an exception); every
// learner gets a copy in which its variables live in a container of its own and its
// random ops draw numbers of their own. Names are kept, so error messages and
// checkpoints look the same. Pure functions.
#ifndef TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_
#define TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "cc/rewrite/program_graph.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorbow {

// What of a task is executed on one device.
struct TaskPart {
  tensorflow::Device* device = nullptr;  // not owned
  std::unique_ptr<tensorflow::Graph> graph;
};

// What every learner's copy is made from.
struct TaskGraph {
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions;
  std::vector<TaskPart> parts;  // they use `functions`; the CPU's, if any, comes first
  tensorflow::DataTypeVector feed_types;  // in the order of the spec
  tensorflow::DataTypeVector fetch_types;
  // Whether the value is fed to, and fetched from, the accelerator's memory.
  std::vector<bool> feeds_accelerator;
  std::vector<bool> fetches_accelerator;
};

TaskGraph CopyOf(const TaskGraph& task);

// The devices on which the variables of a session have been placed, by node: where they
// were first, they stay. Thread-safe.
class VariableDevices {
 public:
  void Add(const std::string& variable, const std::string& device) {
    absl::MutexLock lock(&mu_);
    devices_.emplace(variable, device);
  }
  // "" if it has not been placed.
  std::string Of(const std::string& variable) const {
    absl::MutexLock lock(&mu_);
    const auto device = devices_.find(variable);
    return device == devices_.end() ? "" : device->second;
  }
  std::unordered_map<std::string, std::string> All() const {
    absl::MutexLock lock(&mu_);
    return devices_;
  }

 private:
  mutable absl::Mutex mu_;
  std::unordered_map<std::string, std::string> devices_ ABSL_GUARDED_BY(mu_);
};

// Where tasks are placed.
struct TaskDevices {
  const tensorflow::DeviceSet* all = nullptr;
  // Every node ends up on one of these two, or on the CPU if there is no accelerator.
  tensorflow::Device* cpu = nullptr;
  tensorflow::Device* accelerator = nullptr;
  VariableDevices* variables = nullptr;  // needed with an accelerator; gets new ones
};

// Prunes, places and optimises.
absl::Status BuildTaskGraph(const ProgramGraph& program, const RunSpec& spec,
                            const tensorflow::SessionOptions& options,
                            const TaskDevices& devices, TaskGraph* task);

// The graph optimisations that need a function library runtime (constant folding,
// inlining); in place, once per task graph.
void OptimiseTaskGraph(const tensorflow::SessionOptions& options,
                       const tensorflow::ProcessFunctionLibraryRuntime& runtime,
                       TaskGraph* task);

// How one learner's copy differs.
struct Specialisation {
  int learner = 0;
  // Tells its draws from those of other learners, on other hosts too.
  int random_stream = 0;
  // Whether the learner has variables of its own (else it uses the central ones).
  bool own_variables = true;
  // Names of those of which all learners have one copy, where learner 0 has its own.
  std::set<std::string> shared_variables;
  // Whether the learner's random ops have streams of their own, which can be saved
  // (else their kernels keep the state, as in a stock session).
  bool own_random_state = true;
  // Makes the random ops that the program left unseeded reproducible.
  std::optional<int64_t> seed;
};

// The container that holds learner `learner`'s copies of the variables that the
// program keeps in `container`.
std::string LearnerContainer(int learner, const std::string& container);

// Copies the library and the graphs for one learner; `parts`, in the order of the task
// graph's, use `functions`.
absl::Status SpecialiseTaskGraph(
    const TaskGraph& task, const Specialisation& specialisation,
    std::unique_ptr<tensorflow::FunctionLibraryDefinition>* functions,
    std::vector<std::unique_ptr<tensorflow::Graph>>* parts);

}  // namespace tensorbow

#endif  // TENSORBOW_CC_REWRITE_LEARNER_GRAPH_H_
