#include "cc/graph/task_graph.h"

#include <utility>

#include "tensorflow/core/common_runtime/graph_constructor.h"

namespace tensorbow {

namespace tf = ::tensorflow;

TaskGraph CopyOf(const TaskGraph& task) {
  TaskGraph copy;
  copy.functions = std::make_unique<tf::FunctionLibraryDefinition>(*task.functions);
  for (const TaskPart& part : task.parts) {
    auto graph = std::make_unique<tf::Graph>(copy.functions.get());
    tf::CopyGraph(*part.graph, graph.get());
    copy.parts.push_back({part.device, std::move(graph)});
  }
  copy.feed_types = task.feed_types;
  copy.fetch_types = task.fetch_types;
  copy.feeds_accelerator = task.feeds_accelerator;
  copy.fetches_accelerator = task.fetches_accelerator;
  copy.fixed_shapes = task.fixed_shapes;
  return copy;
}

}  // namespace tensorbow
