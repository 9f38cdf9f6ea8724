// Task graphs for tests of passes.
#ifndef TENSORBOW_TESTS_CC_TASKS_H_
#define TENSORBOW_TESTS_CC_TASKS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/passes/task/build_task.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/public/session_options.h"
#include "tests/cc/graphs.h"

namespace tensorbow {

// A task graph on one CPU, with its nodes by name.
class Task {
 public:
  explicit Task(const std::vector<tensorflow::NodeDef>& nodes,
                const tensorflow::FunctionDefLibrary& functions = {}) {
    device_ = tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(),
                                                   "/job:localhost/replica:0/task:0");
    task_.functions = std::make_unique<tensorflow::FunctionLibraryDefinition>(
        tensorflow::OpRegistry::Global(), functions);
    auto graph = std::make_unique<tensorflow::Graph>(task_.functions.get());
    const absl::Status status = tensorflow::ConvertGraphDefToGraph(
        tensorflow::GraphConstructorOptions(), GraphOf(nodes), graph.get());
    EXPECT_TRUE(status.ok()) << status;
    for (tensorflow::Node* node : graph->op_nodes()) {
      node->set_assigned_device_name(device_->name());
    }
    task_.parts.push_back({device_.get(), std::move(graph)});
  }

  TaskGraph* get() { return &task_; }
  const TaskGraph* get() const { return &task_; }

  // Returns null if there is no such node.
  const tensorflow::Node* Find(const std::string& name) const {
    for (const tensorflow::Node* node : task_.parts[0].graph->op_nodes()) {
      if (node->name() == name) return node;
    }
    return nullptr;
  }

  bool Waits(const std::string& node, const std::string& before) const {
    for (const tensorflow::Edge* edge : Find(node)->in_edges()) {
      if (edge->IsControlEdge() && edge->src()->name() == before) return true;
    }
    return false;
  }

 private:
  std::unique_ptr<tensorflow::Device> device_;
  TaskGraph task_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_TASKS_H_
