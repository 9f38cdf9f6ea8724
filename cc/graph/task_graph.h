// The graph of a learning task, from which each learner makes its copy, and the
// placement of its nodes.
#ifndef TENSORBOW_CC_GRAPH_TASK_GRAPH_H_
#define TENSORBOW_CC_GRAPH_TASK_GRAPH_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorbow {

// The part of a task that one device executes.
struct TaskPart {
  tensorflow::Device* device = nullptr;  // not owned
  std::unique_ptr<tensorflow::Graph> graph;
};

// The template of every learner's copy.
struct TaskGraph {
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> functions;
  std::vector<TaskPart> parts;  // they use `functions`; the CPU's, if any, comes first
  tensorflow::DataTypeVector feed_types;  // in the order of the spec
  tensorflow::DataTypeVector fetch_types;
  // True if the value is fed to, or fetched from, the accelerator's memory.
  std::vector<bool> feeds_accelerator;
  std::vector<bool> fetches_accelerator;
  bool fixed_shapes = false;  // the graph is that of feeds of certain shapes
};

TaskGraph CopyOf(const TaskGraph& task);

// The devices of a session's variables, by node: a variable stays on its first device.
// Thread-safe.
class VariableDevices {
 public:
  void Add(const std::string& variable, const std::string& device) {
    absl::MutexLock lock(&mu_);
    devices_.emplace(variable, device);
  }
  // Returns the device; "" if the variable has not been placed.
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

// The devices on which tasks are placed.
struct TaskDevices {
  const tensorflow::DeviceSet* all = nullptr;
  // Every node is placed on one of these two; on the CPU if there is no accelerator.
  tensorflow::Device* cpu = nullptr;
  tensorflow::Device* accelerator = nullptr;
  VariableDevices* variables = nullptr;  // with an accelerator; is extended
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_GRAPH_TASK_GRAPH_H_
