#include "cc/rewrite/reduce_gradients.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/rewrite/run_analysis.h"
#include "cc/rewrite/updates.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Everything downstream of `start`, not going on from nodes where `stop` is true.
template <typename Stop>
std::set<const tf::Node*> Downstream(std::vector<const tf::Node*> start, Stop stop) {
  std::set<const tf::Node*> reached;
  while (!start.empty()) {
    const tf::Node* const node = start.back();
    start.pop_back();
    for (const tf::Edge* edge : node->out_edges()) {
      if (stop(*edge->dst()) || !reached.insert(edge->dst()).second) continue;
      start.push_back(edge->dst());
    }
  }
  return reached;
}

bool IsFused(const tf::Node& update) {
  return absl::StartsWith(update.type_string(), "TensorBow");
}

}  // namespace

absl::StatusOr<int> ReduceGradients(const std::vector<std::string>& trained,
                                    TaskGraph* task) {
  if (task->parts.size() != 1) {
    return absl::InvalidArgumentError(
        "S-SGD works on one device for each learner, the CPU. Use tensorbow.SMA()");
  }
  tf::Graph* const graph = task->parts[0].graph.get();
  const std::set<std::string> names(trained.begin(), trained.end());
  std::map<const tf::Node*, const tf::Node*> updates;  // update → its variable
  std::vector<const tf::Node*> switches;
  for (const tf::Node* node : graph->op_nodes()) {
    if (node->IsSwitch()) switches.push_back(node);
    if (names.count(node->name()) == 0 || !IsVariableOp(node->type_string())) continue;
    const tf::Node* const update = OnlyUpdate(*node);
    if (update == nullptr || GradientInput(*update) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("S-SGD averages gradients, which it finds in TensorFlow's "
                       "optimiser ops with a "
                       "dense gradient; variable '",
                       node->name(), "' is updated otherwise. Use tensorbow.SMA()"));
    }
    updates[update] = node;
  }

  // In one order for all learners, and with nothing in it that may not be executed.
  const std::set<const tf::Node*> conditional =
      Downstream(switches, [](const tf::Node& n) { return n.IsMerge() || n.IsExit(); });
  std::vector<tf::Node*> ordered;
  std::vector<tf::Node*> all;
  tf::GetReversePostOrder(*graph, &all, tf::NodeComparatorName());
  for (tf::Node* node : all) {
    if (updates.count(node) > 0) ordered.push_back(node);
  }
  const std::set<const tf::Node*> after_updates = Downstream(
      {ordered.begin(), ordered.end()}, [](const tf::Node&) { return false; });
  for (const tf::Node* update : ordered) {
    const char* what = conditional.count(update) > 0     ? "in a conditional"
                       : after_updates.count(update) > 0 ? "after another update"
                                                         : nullptr;
    if (what != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "S-SGD averages all gradients before it updates anything, but variable '",
          updates[update]->name(), "' is updated ", what, ". Use tensorbow.SMA()"));
    }
  }

  // Whatever can fail comes before anything that meets the other learners: the fused
  // updates' gradients; all reductions; the updates.
  tf::Node* last = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(graph->NewName("TensorBow.gradients"), "NoOp",
                                     graph->op_registry())
                         .AssignedDevice(task->parts[0].device->name())
                         .Finalize(graph, &last));
  int reductions = 0;
  for (tf::Node* update : ordered) {
    if (!IsFused(*update)) continue;
    tf::Node* gradient = nullptr;
    TF_RETURN_IF_ERROR(update->input_node(GradientInput(*update), &gradient));
    graph->AddControlEdge(gradient, last);
  }
  for (tf::Node* update : ordered) {
    if (IsFused(*update)) continue;
    const int input = GradientInput(*update);
    const tf::Edge* edge = nullptr;
    TF_RETURN_IF_ERROR(update->input_edge(input, &edge));
    tf::Node* reduction = nullptr;
    tf::NodeBuilder builder(absl::StrCat(update->name(), "/TensorBow.average"),
                            "TensorBowReduceGradient", graph->op_registry());
    builder.Input(edge->src(), edge->src_output())
        .Attr("index", reductions++)
        .ControlInput(last)
        .AssignedDevice(update->assigned_device_name());
    TF_RETURN_IF_ERROR(builder.Finalize(graph, &reduction));
    graph->RemoveEdge(edge);
    graph->AddEdge(reduction, 0, update, input);
    last = reduction;
  }
  for (tf::Node* update : ordered) {
    graph->AddControlEdge(last, update);
    if (IsFused(*update)) last = update;
  }
  return reductions;
}

}  // namespace tensorbow
