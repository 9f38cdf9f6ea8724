#include "cc/rewrite/learner_graph.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/random_state.h"
#include "cc/rewrite/run_analysis.h"
#include "tensorflow/core/common_runtime/build_graph_options.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/graph_execution_state.h"
#include "tensorflow/core/common_runtime/graph_optimizer.h"
#include "tensorflow/core/common_runtime/memory_types.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Apart far enough that no two learners' seeds meet by adding small numbers.
constexpr int64_t kSeedStride = 1000003;

// Changes the attributes of one node for one learner; true if anything changed.
bool SpecialiseNode(const Specialisation& specialisation, const tf::OpDef& op,
                    tf::NodeDef* node) {
  auto& attributes = *node->mutable_attr();
  if (IsVariableOp(node->op())) {
    if (!specialisation.own_variables) return false;
    std::string* container = attributes["container"].mutable_s();
    *container = LearnerContainer(specialisation.learner, *container);
    return true;
  }
  if (!KeepsRandomState(*node, op)) return false;
  const auto seed = attributes.find("seed"), seed2 = attributes.find("seed2");
  int64_t first = seed->second.i(), second = seed2->second.i();
  if (first == 0 && second == 0) {  // unseeded
    if (!specialisation.seed.has_value()) return false;
    first = *specialisation.seed;
    second = static_cast<int64_t>(tf::Hash64(node->name()) >> 1);
  } else if (specialisation.learner == 0) {
    return false;
  }
  second += specialisation.learner * kSeedStride;
  seed->second.set_i(first);
  seed2->second.set_i(second);
  return true;
}

}  // namespace

std::string LearnerContainer(int learner, const std::string& container) {
  const std::string own = absl::StrCat("tensorbow.learner.", learner);
  return container.empty() ? own : absl::StrCat(own, ".", container);
}

absl::Status BuildTaskGraph(const ProgramGraph& program, const RunSpec& spec,
                            const tf::SessionOptions& options,
                            const tf::DeviceSet& devices, tf::Device* device,
                            TaskGraph* task) {
  tf::GraphDef closure;
  TF_RETURN_IF_ERROR(program.Closure(spec, &closure));
  tf::GraphExecutionStateOptions state_options;
  state_options.device_set = &devices;
  state_options.session_options = &options;
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
  for (tf::Node* node : graph->op_nodes()) {
    node->set_assigned_device_name(device->name());
  }
  // Mandatory: this is where oneDNN's kernels come in.
  std::unordered_map<std::string, std::unique_ptr<tf::Graph>> partitions;
  partitions[device->name()] = std::move(graph);
  tf::GraphOptimizationPassOptions passes;
  passes.session_options = &options;
  passes.flib_def = client->flib_def.get();
  passes.partition_graphs = &partitions;
  passes.device_set = &devices;
  TF_RETURN_IF_ERROR(tf::OptimizationPassRegistry::Global()->RunGrouping(
      tf::OptimizationPassRegistry::POST_PARTITIONING, passes));

  task->functions = std::move(client->flib_def);
  task->graph = std::move(partitions.begin()->second);
  task->feed_types = client->feed_types;
  task->fetch_types = client->fetch_types;
  return absl::OkStatus();
}

void OptimiseTaskGraph(const tf::SessionOptions& options,
                       tf::FunctionLibraryRuntime* runtime, TaskGraph* task) {
  tf::GraphOptimizer optimiser(options.config.graph_options().optimizer_options());
  optimiser.Optimize(runtime, options.env, runtime->device(), &task->graph,
                     tf::GraphOptimizer::Options());
}

absl::Status SpecialiseTaskGraph(
    const TaskGraph& task, const Specialisation& specialisation,
    std::unique_ptr<tf::FunctionLibraryDefinition>* functions,
    std::unique_ptr<tf::Graph>* graph) {
  *functions = std::make_unique<tf::FunctionLibraryDefinition>(*task.functions);
  for (const std::string& name : (*functions)->ListFunctionNames()) {
    const auto record = (*functions)->FindRecord(name);
    tf::FunctionDef definition = record->fdef();
    bool changed = false;
    for (tf::NodeDef& node : *definition.mutable_node_def()) {
      const tf::OpDef* op = nullptr;
      if (!(*functions)->LookUpOpDef(node.op(), &op).ok()) continue;
      changed |= SpecialiseNode(specialisation, *op, &node);
    }
    if (changed) TF_RETURN_IF_ERROR((*functions)->ReplaceFunction(name, definition));
  }

  *graph = std::make_unique<tf::Graph>(functions->get());
  tf::CopyGraph(*task.graph, graph->get());
  for (tf::Node* node : (*graph)->op_nodes()) {
    if (!node->op_def().is_stateful()) continue;
    tf::NodeDef changed = node->def();
    if (!SpecialiseNode(specialisation, node->op_def(), &changed)) continue;
    for (const char* name : {"container", "seed", "seed2"}) {
      const auto attribute = changed.attr().find(name);
      if (attribute == changed.attr().end()) continue;
      node->ClearAttr(name);
      node->AddAttr(name, attribute->second);
    }
  }
  if (specialisation.own_random_state) {
    TF_RETURN_IF_ERROR(ExposeRandomState(graph->get()));
  }
  const tf::Node* any = nullptr;
  for (const tf::Node* node : (*graph)->op_nodes()) any = node;
  if (any == nullptr) return absl::OkStatus();
  return tf::EnsureMemoryTypes(tf::DeviceType(tf::DEVICE_CPU),
                               any->assigned_device_name(), graph->get());
}

}  // namespace tensorbow
