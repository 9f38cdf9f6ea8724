#include "cc/passes/task/build_task.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/common_runtime/build_graph_options.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/graph_execution_state.h"
#include "tensorflow/core/common_runtime/graph_optimizer.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/memory_types.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/graph_partition.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Partitions = std::unordered_map<std::string, std::unique_ptr<tf::Graph>>;

// Returns whether a fetched value of this type can be returned in the accelerator's
// memory. TensorFlow keeps 32-bit integers (shapes, mostly) on the CPU; other types
// have no fixed size.
bool LivesOnAccelerator(tf::DataType type) {
  return type != tf::DT_INT32 && tf::DataTypeCanUseMemcpy(type);
}

// Makes the feed `node` return its value in `accelerator`'s memory. TensorFlow's op for
// arguments returns 32-bit integers in host memory; it has another op for them.
absl::Status MoveFeed(const tf::Device& accelerator, tf::Graph* graph, tf::Node* node) {
  if (node->output_type(0) == tf::DT_INT32) {
    tf::NodeDef definition = node->def();
    definition.set_op(tf::FunctionLibraryDefinition::kDeviceArgOp);
    TF_ASSIGN_OR_RETURN(tf::Node* const moved, graph->AddNode(std::move(definition)));
    const std::vector<const tf::Edge*> edges(node->out_edges().begin(),
                                             node->out_edges().end());
    for (const tf::Edge* edge : edges) {
      if (edge->IsControlEdge()) {
        graph->AddControlEdge(moved, edge->dst());
      } else {
        TF_RETURN_IF_ERROR(graph->UpdateEdge(moved, 0, edge->dst(), edge->dst_input()));
      }
    }
    graph->AddControlEdge(graph->source_node(), moved);
    graph->RemoveNode(node);
    node = moved;
  }
  node->set_assigned_device_name(accelerator.name());
  return absl::OkStatus();
}

// Returns whether `node`, at this end of an edge, has the value in `accelerator`'s
// memory.
bool InDeviceMemory(const tf::Node& node, const tf::Device& accelerator, bool output,
                    int index) {
  if (node.assigned_device_name() != accelerator.name()) return false;
  tf::MemoryTypeVector inputs, outputs;
  const absl::Status found = tf::MemoryTypesForNode(
      tf::OpRegistry::Global(), tf::DeviceType(accelerator.device_type()), node.def(),
      &inputs, &outputs);
  const tf::MemoryTypeVector& types = output ? outputs : inputs;
  return found.ok() && index < static_cast<int>(types.size()) &&
         types[index] == tf::DEVICE_MEMORY;
}

// Assigns every node to the CPU or the accelerator. Feeds used only on the accelerator
// are copied there directly, and fetches made there are returned there. So no task
// waits for a copy.
absl::Status PlaceOnTwo(const TaskDevices& devices, tf::Graph* graph, TaskGraph* task) {
  const tf::Device* const accelerator = devices.accelerator;
  task->feeds_accelerator.assign(task->feed_types.size(), false);
  task->fetches_accelerator.assign(task->fetch_types.size(), false);
  for (tf::Node* node : graph->op_nodes()) {
    if (accelerator != nullptr && node->assigned_device_name() == accelerator->name()) {
      if (FactsOf(node->type_string()).creates_variable) {
        devices.variables->Add(node->name(), accelerator->name());
      }
      continue;
    }
    node->set_assigned_device_name(devices.cpu->name());
    if (accelerator != nullptr && FactsOf(node->type_string()).creates_variable) {
      devices.variables->Add(node->name(), devices.cpu->name());
    }
  }
  if (accelerator == nullptr) return absl::OkStatus();
  const auto nodes = graph->op_nodes();
  for (tf::Node* node : std::vector<tf::Node*>(nodes.begin(), nodes.end())) {
    int index = 0;
    if (!node->IsArg() && !node->IsRetval()) continue;
    if (!tf::GetNodeAttr(node->attrs(), "index", &index).ok()) continue;
    if (node->IsArg()) {
      bool all = tf::DataTypeCanUseMemcpy(task->feed_types[index]) &&
                 !node->out_edges().empty();
      for (const tf::Edge* edge : node->out_edges()) {
        all &= edge->IsControlEdge() ||
               InDeviceMemory(*edge->dst(), *accelerator, false, edge->dst_input());
      }
      task->feeds_accelerator[index] = all;
      if (all) TF_RETURN_IF_ERROR(MoveFeed(*accelerator, graph, node));
    } else {
      const tf::Edge* edge = nullptr;
      if (!node->input_edge(0, &edge).ok()) continue;
      const bool there =
          LivesOnAccelerator(task->fetch_types[index]) &&
          InDeviceMemory(*edge->src(), *accelerator, true, edge->src_output());
      task->fetches_accelerator[index] = there;
      if (there) node->set_assigned_device_name(accelerator->name());
    }
  }
  return absl::OkStatus();
}

// Divides the graph by device, with transfers between the parts.
absl::Status Divide(const TaskDevices& devices,
                    const tf::FunctionLibraryDefinition* functions,
                    std::unique_ptr<tf::Graph> graph, Partitions* partitions) {
  if (devices.accelerator == nullptr) {
    (*partitions)[devices.cpu->name()] = std::move(graph);
    return absl::OkStatus();
  }
  tf::PartitionOptions options;
  options.node_to_loc = [](const tf::Node* node) {
    return node->assigned_device_name();
  };
  int64_t names = 0;
  options.new_name = [&names](const std::string& prefix) {
    return absl::StrCat(prefix, "/TensorBow.", names++);
  };
  options.get_incarnation = [](const std::string&) { return 1; };
  options.flib_def = functions;
  options.control_flow_added = false;
  std::unordered_map<std::string, tf::GraphDef> definitions;
  TF_RETURN_IF_ERROR(tf::Partition(options, graph.get(), &definitions));
  for (auto& [device, definition] : definitions) {
    definition.clear_library();  // the part uses the shared library
    auto part = std::make_unique<tf::Graph>(functions);
    tf::GraphConstructorOptions construction;
    construction.allow_internal_ops = true;
    construction.expect_device_spec = true;
    TF_RETURN_IF_ERROR(
        tf::ConvertGraphDefToGraph(construction, std::move(definition), part.get()));
    (*partitions)[device] = std::move(part);
  }
  return absl::OkStatus();
}

// Gives shape inference the feeds' shapes without the first axis: learners have numbers
// of rows of their own.
void AnnotateFeeds(const ProgramGraph& program, const RunSpec& spec, tf::Graph* graph) {
  for (tf::Node* node : graph->op_nodes()) {
    int index = 0;
    if (!node->IsArg() || !tf::GetNodeAttr(node->attrs(), "index", &index).ok()) {
      continue;
    }
    const TensorName feed = ParseTensor(spec.feeds[index]);
    const tf::NodeDef* const placeholder = program.Find(feed.node);
    if (placeholder == nullptr || placeholder->op() != "Placeholder") continue;
    const auto shape = placeholder->attr().find("shape");
    if (shape == placeholder->attr().end() || shape->second.shape().dim_size() == 0) {
      continue;
    }
    tf::TensorShapeProto rows = shape->second.shape();
    rows.mutable_dim(0)->set_size(-1);
    node->AddAttr("_output_shapes", std::vector<tf::TensorShapeProto>{rows});
  }
}

// Leaves out optimisations that are on by default and have no effect on CPUs: they are
// a quarter of the time that all take.
tf::SessionOptions ForCpu(tf::SessionOptions options) {
  auto* const rewrites =
      options.config.mutable_graph_options()->mutable_rewrite_options();
  if (rewrites->layout_optimizer() == tf::RewriterConfig::DEFAULT &&
      rewrites->cpu_layout_conversion() == tf::RewriterConfig::NO_CONVERSION_ON_CPU) {
    rewrites->set_layout_optimizer(tf::RewriterConfig::OFF);
  }
  if (rewrites->memory_optimization() == tf::RewriterConfig::DEFAULT_MEM_OPT) {
    rewrites->set_memory_optimization(tf::RewriterConfig::NO_MEM_OPT);
  }
  return options;
}

}  // namespace

absl::Status LowerTask(const ProgramGraph& program, const RunSpec& spec,
                       const tf::SessionOptions& options, const TaskDevices& devices,
                       TaskGraph* task) {
  tf::GraphDef closure;
  TF_RETURN_IF_ERROR(program.Closure(spec, &closure));
  tf::GraphExecutionStateOptions state_options;
  state_options.device_set = devices.all;
  if (devices.accelerator != nullptr) {
    state_options.stateful_placements = devices.variables->All();
  }
  const tf::SessionOptions used =
      devices.accelerator == nullptr ? ForCpu(options) : options;
  state_options.session_options = &used;
  std::unique_ptr<tf::GraphExecutionState> state;
  TF_RETURN_IF_ERROR(tf::GraphExecutionState::MakeForBaseGraph(std::move(closure),
                                                               state_options, &state));

  tf::BuildGraphOptions build;
  build.use_function_convention = true;
  for (const auto& feed : spec.feeds) build.callable_options.add_feed(feed);
  for (const auto& fetch : spec.fetches) build.callable_options.add_fetch(fetch);
  for (const auto& target : spec.targets) build.callable_options.add_target(target);
  std::unique_ptr<tf::ClientGraph> client;
  TF_RETURN_IF_ERROR(state->BuildGraph(build, &client));

  auto graph = std::make_unique<tf::Graph>(client->flib_def.get());
  tf::CopyGraph(client->graph, graph.get());
  task->feed_types = client->feed_types;
  task->fetch_types = client->fetch_types;
  task->functions = std::move(client->flib_def);
  AnnotateFeeds(program, spec, graph.get());
  task->parts.push_back({devices.cpu, std::move(graph)});
  return absl::OkStatus();
}

absl::Status DivideTask(const ProgramGraph& program, const RunSpec& spec,
                        const tf::SessionOptions& options, const TaskDevices& devices,
                        TaskGraph* task) {
  std::unique_ptr<tf::Graph> graph = std::move(task->parts[0].graph);
  task->parts.clear();
  TF_RETURN_IF_ERROR(PlaceOnTwo(devices, graph.get(), task));
  Partitions partitions;
  TF_RETURN_IF_ERROR(
      Divide(devices, task->functions.get(), std::move(graph), &partitions));
  // Mandatory: these passes select oneDNN's kernels.
  tf::GraphOptimizationPassOptions passes;
  passes.session_options = &options;
  passes.flib_def = task->functions.get();
  passes.partition_graphs = &partitions;
  passes.device_set = devices.all;
  TF_RETURN_IF_ERROR(tf::OptimizationPassRegistry::Global()->RunGrouping(
      tf::OptimizationPassRegistry::POST_PARTITIONING, passes));

  for (tf::Device* device : {devices.cpu, devices.accelerator}) {
    if (device == nullptr) continue;
    const auto part = partitions.find(device->name());
    if (part == partitions.end()) continue;
    task->parts.push_back({device, std::move(part->second)});
  }
  if (task->parts.empty()) {  // nothing to do
    task->parts.push_back(
        {devices.cpu, std::make_unique<tf::Graph>(task->functions.get())});
  }
  return absl::OkStatus();
}

void OptimiseTaskGraph(const tf::SessionOptions& options,
                       const tf::ProcessFunctionLibraryRuntime& runtime,
                       TaskGraph* task) {
  tf::GraphOptimizer optimiser(options.config.graph_options().optimizer_options());
  for (TaskPart& part : task->parts) {
    tf::FunctionLibraryRuntime* const library = runtime.GetFLR(part.device->name());
    optimiser.Optimize(library, options.env, library->device(), &part.graph,
                       tf::GraphOptimizer::Options());
  }
}

}  // namespace tensorbow
