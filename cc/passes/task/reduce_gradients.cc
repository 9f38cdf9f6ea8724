#include "cc/passes/task/reduce_gradients.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/acyclic.h"
#include "cc/graph/downstream.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/sparse_gradient.h"
#include "cc/graph/updates.h"
#include "cc/graph/writers.h"
#include "cc/passes/task/before_updates.h"
#include "cc/passes/task/exchange_levels.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool IsReduction(const tf::Node& node) {
  return IsOp(&node, {kReduceGradient, kReduceRows});
}

// Returns the nodes whose values differ among learners: those downstream of divided
// feeds, other data and random numbers, except through averages.
NodeSet OfOneTask(const tf::Graph& graph, const std::set<int>& whole_feeds) {
  std::vector<const tf::Node*> sources;
  for (const tf::Node* node : graph.op_nodes()) {
    int feed = -1;
    if (node->IsArg() && tf::GetNodeAttr(node->attrs(), "index", &feed).ok() &&
        whole_feeds.count(feed) > 0) {
      continue;
    }
    const bool random = KeepsRandomState(node->def(), node->op_def()) ||
                        absl::StrContains(node->type_string(), "Random");
    if (node->IsArg() || random || HasSharedKernel(node->def(), node->op_def())) {
      sources.push_back(node);
    }
  }
  return Downstream(std::move(sources), [](const tf::Edge& edge) {
    return !edge.IsControlEdge() && !IsReduction(*edge.dst());
  });
}

absl::Status UpdatedOtherwise(const std::string& variable) {
  return absl::InvalidArgumentError(absl::StrCat(
      "S-SGD finds no gradient of variable '", variable,
      "', which no optimiser of TensorFlow or Keras updates. Use tensorbow.SMA(), or "
      "update it by an optimiser"));
}

// Makes the gradient of a fused update the learner's own if the program averages it:
// the update will do that.
absl::Status TakeOver(tf::Node* update, tf::Graph* graph) {
  const int input = GradientInput(*update);
  tf::Node* reduction = nullptr;
  TF_RETURN_IF_ERROR(update->input_node(input, &reduction));
  if (!IsReduction(*reduction)) return absl::OkStatus();
  const tf::Edge* gradient = nullptr;
  TF_RETURN_IF_ERROR(reduction->input_edge(0, &gradient));
  TF_RETURN_IF_ERROR(
      graph->UpdateEdge(gradient->src(), gradient->src_output(), update, input));
  const auto& uses = reduction->out_edges();
  if (std::all_of(uses.begin(), uses.end(),
                  [](const tf::Edge* use) { return use->IsControlEdge(); })) {
    graph->RemoveNode(reduction);
  }
  return absl::OkStatus();
}

// Inserts a reduction before an update with a gradient of some rows.
absl::Status InsertForRows(const SparseGradient& gradient, tf::Node* update,
                           tf::Graph* graph) {
  const auto input = [](const NodeOutput& tensor) {
    return tf::NodeBuilder::NodeOut(tensor.node, tensor.index);
  };
  tf::Node* reduction = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(absl::StrCat(update->name(), "/TensorBow.average"),
                                     kReduceRows, graph->op_registry())
                         .Input(input(gradient.values))
                         .Input(input(gradient.indices))
                         .Attr("index", 0)
                         .AssignedDevice(update->assigned_device_name())
                         .Finalize(graph, &reduction));
  for (const SparseGradient::Use& use : gradient.uses_of_values) {
    TF_RETURN_IF_ERROR(graph->UpdateEdge(reduction, 0, use.node, use.input));
  }
  const SparseGradient::Use& indices = gradient.use_of_indices;
  return graph->UpdateEdge(reduction, 1, indices.node, indices.input);
}

// Returns the shape of the updated variable.
tf::PartialTensorShape ShapeOf(const tf::Node& update) {
  tf::PartialTensorShape shape;
  const tf::Node* variable = nullptr;
  if (update.input_node(0, &variable).ok()) {
    tf::GetNodeAttr(variable->attrs(), "shape", &shape).IgnoreError();
  }
  return shape;
}

// Inserts a reduction before the update, unless the program has one there.
absl::Status Insert(tf::Node* update, tf::Graph* graph) {
  if (IsFusedUpdate(*update)) {
    update->ClearAttr("averaged");
    update->AddAttr("averaged", true);
  }
  if (const auto rows = SparseGradientOf(update)) {
    return InsertForRows(*rows, update, graph);
  }
  const int input = GradientInput(*update);
  const tf::Edge* gradient = nullptr;
  TF_RETURN_IF_ERROR(update->input_edge(input, &gradient));
  if (IsReduction(*gradient->src())) return absl::OkStatus();
  tf::Node* reduction = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(absl::StrCat(update->name(), "/TensorBow.average"),
                                     kReduceGradient, graph->op_registry())
                         .Input(gradient->src(), gradient->src_output())
                         .Attr("index", 0)
                         .Attr("shape", ShapeOf(*update))
                         .AssignedDevice(update->assigned_device_name())
                         .Finalize(graph, &reduction));
  return graph->UpdateEdge(reduction, 0, update, input);
}

// Returns whether `node` computes from averages.
bool IsOfAverages(const tf::Node& node) {
  NodeSet seen;
  std::vector<const tf::Node*> pending{&node};
  while (!pending.empty()) {
    const tf::Node* const current = pending.back();
    pending.pop_back();
    for (const tf::Edge* edge : current->in_edges()) {
      if (edge->IsControlEdge() || !seen.insert(edge->src()).second) continue;
      if (IsReduction(*edge->src())) return true;
      pending.push_back(edge->src());
    }
  }
  return false;
}

// Returns whether the update takes a gradient of some rows that is a learner's own.
bool IsOfRows(tf::Node* update) {
  const auto gradient = SparseGradientOf(update);
  return gradient.has_value() && !IsReduction(*gradient->values.node) &&
         !IsOfAverages(*gradient->values.node);
}

// The nodes that update the trained variables.
struct Updates {
  std::vector<tf::Node*> by_gradient;  // optimiser ops
  std::vector<const tf::Node*> all;    // these and other nodes that write a variable
  std::vector<VariableWrite> others;
};

absl::StatusOr<Updates> FindUpdates(const std::set<std::string>& trained,
                                    const std::set<int>& whole_feeds,
                                    const std::optional<std::set<std::string>>& sums,
                                    const TaskGraph& task) {
  const tf::Graph& graph = *task.parts[0].graph;
  const bool typed = sums.has_value();
  bool averages_itself = false;
  for (const tf::Node* node : graph.op_nodes()) averages_itself |= IsReduction(*node);
  const NodeSet of_one_task = typed ? NodeSet() : OfOneTask(graph, whole_feeds);
  Updates updates;
  VariableWriters writers(*task.functions);
  for (const tf::Node* node : graph.op_nodes()) {
    if (trained.count(node->name()) == 0 ||
        !FactsOf(node->type_string()).creates_variable)
      continue;
    tf::Node* const update = OnlyUpdate(*node);
    if (update != nullptr && (IsOfGradient(*update) || IsOfRows(update))) {
      updates.by_gradient.push_back(update);
      updates.all.push_back(update);
      continue;
    }
    if (!averages_itself && !typed) return UpdatedOtherwise(node->name());
    for (const tf::Node* writer : writers.Of(*node)) {
      if (of_one_task.count(writer) > 0) return UpdatedOtherwise(node->name());
      updates.all.push_back(writer);
      updates.others.push_back({node, writer});
    }
  }
  if (!typed) return updates;
  // Variables may be written outside of their updates, too.
  for (tf::Node* node : graph.op_nodes()) {
    const auto& found = updates.by_gradient;
    if (sums->count(node->name()) > 0 && (IsOfGradient(*node) || IsOfRows(node)) &&
        std::find(found.begin(), found.end(), node) == found.end()) {
      updates.by_gradient.push_back(node);
    }
  }
  return updates;
}

// Returns an error if a learner's own part of a gradient is written by a node that is
// no averaged update and takes no reduction.
absl::Status CheckAveraged(const std::set<std::string>& sums, const Updates& updates,
                           const tf::Graph& graph) {
  std::set<std::string> averaged;
  for (const tf::Node* update : updates.by_gradient) averaged.insert(update->name());
  for (const tf::Node* node : graph.op_nodes()) {
    bool reduced = IsReduction(*node);
    for (const tf::Node* input : node->in_nodes()) reduced |= IsReduction(*input);
    if (reduced) averaged.insert(node->name());
  }
  for (const std::string& node : sums) {
    if (averaged.count(node) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", node, "' writes a gradient where learners cannot average it"));
  }
  return absl::OkStatus();
}

// Returns the error that a gradient is computed where learners cannot average it.
absl::Status ComputedLate(absl::string_view gradient, absl::string_view when) {
  return absl::InvalidArgumentError(absl::StrCat(
      "S-SGD cannot average '", ProgramsName(gradient), "', which is computed ", when,
      ": it averages all gradients before the first update. Use tensorbow.SMA()"));
}

// The exchanges of a level, in the order of all learners.
struct LevelExchanges {
  std::vector<tf::Node*> reductions;
  std::vector<tf::Node*> fused;  // updates that average by themselves
};

// Chains the exchanges behind `begin`, level by level. Updates of `by_gradient` that
// are not fused follow all averages of the levels before.
void Chain(const std::map<int, LevelExchanges>& exchanges, const ExchangeLevels& levels,
           const std::vector<tf::Node*>& by_gradient, tf::Node* begin,
           tf::Graph* graph) {
  int64_t index = 0;
  tf::Node* last = begin;
  std::map<int, tf::Node*> last_reductions{{-1, begin}};
  for (const auto& [level, at_level] : exchanges) {
    for (tf::Node* reduction : at_level.reductions) {
      reduction->ClearAttr("index");
      reduction->AddAttr("index", index++);
      graph->AddControlEdge(last, reduction);
      last = last_reductions[level] = reduction;
    }
    for (tf::Node* update : at_level.fused) {
      graph->AddControlEdge(last, update);
      last = update;
    }
  }
  for (tf::Node* update : by_gradient) {
    if (IsFusedUpdate(*update)) continue;
    const auto before = std::prev(last_reductions.lower_bound(levels.Of(*update)));
    graph->AddControlEdge(before->second, update);
  }
}

}  // namespace

bool IsOfGradient(const tf::Node& update) {
  const int input = GradientInput(update);
  const tf::Node* gradient = nullptr;
  return input >= 0 && update.input_node(input, &gradient).ok() &&
         (IsReduction(*gradient) || !IsOfAverages(*gradient));
}

absl::StatusOr<int> ReduceGradients(const std::vector<std::string>& trained,
                                    const std::set<int>& whole_feeds,
                                    const std::optional<std::set<std::string>>& sums,
                                    Averaging averaging, TaskGraph* task) {
  if (task->parts.size() != 1) {
    return absl::InvalidArgumentError("S-SGD works on CPUs only. Use tensorbow.SMA()");
  }
  tf::Graph* const graph = task->parts[0].graph.get();
  TF_ASSIGN_OR_RETURN(
      const Updates updates,
      FindUpdates({trained.begin(), trained.end()}, whole_feeds, sums, *task));
  if (sums.has_value()) TF_RETURN_IF_ERROR(CheckAveraged(*sums, updates, *graph));
  for (tf::Node* update : updates.by_gradient) {
    const bool by_itself = IsFusedUpdate(*update) && averaging == Averaging::kInUpdates;
    TF_RETURN_IF_ERROR(by_itself ? TakeOver(update, graph) : Insert(update, graph));
  }

  std::vector<tf::Node*> ordered;
  tf::GetReversePostOrder(*graph, &ordered, tf::NodeComparatorName());
  const NodeSet by_gradient(updates.by_gradient.begin(), updates.by_gradient.end());
  const ExchangeLevels levels(ordered, by_gradient,
                              {updates.all.begin(), updates.all.end()});
  TF_RETURN_IF_ERROR(CheckOrderOfWrites(updates.others, levels));
  std::map<int, LevelExchanges> exchanges;
  int num_reductions = 0;
  std::vector<const tf::Node*> waiting(levels.updates().begin(),
                                       levels.updates().end());
  for (tf::Node* node : ordered) {
    if (IsReduction(*node)) {
      exchanges[levels.Of(*node)].reductions.push_back(node);
      waiting.push_back(node);
      ++num_reductions;
    } else if (averaging == Averaging::kInUpdates && IsFusedUpdate(*node) &&
               by_gradient.count(node) > 0) {
      exchanges[levels.Of(*node)].fused.push_back(node);
    }
  }

  // Everything that can fail comes before the first level. All exchanges must be
  // executed in every task.
  const NodeSet conditional = Conditional(*graph);
  tf::Node* begin = nullptr;
  TF_RETURN_IF_ERROR(tf::NodeBuilder(graph->NewName("TensorBow.gradients"),
                                     kBeginUpdates, graph->op_registry())
                         .Input(std::vector<tf::NodeBuilder::NodeOut>())
                         .Input(std::vector<tf::NodeBuilder::NodeOut>())
                         .AssignedDevice(task->parts[0].device->name())
                         .Finalize(graph, &begin));
  const auto follow_gradient = [&](tf::Node* node, int input) -> absl::Status {
    const tf::Edge* gradient = nullptr;
    TF_RETURN_IF_ERROR(node->input_edge(input, &gradient));
    const bool late = levels.Through(*gradient) > 0;
    const char* const what = conditional.count(node) > 0 ? "in a conditional"
                             : late && averaging == Averaging::kBefore
                                 ? "after another update"
                                 : nullptr;
    if (what != nullptr) return ComputedLate(gradient->src()->name(), what);
    if (!late) graph->AddControlEdge(gradient->src(), begin);
    return absl::OkStatus();
  };
  for (const auto& [level, at_level] : exchanges) {
    for (tf::Node* node : at_level.reductions) {
      for (int i = 0; i < node->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(follow_gradient(node, i));
      }
    }
    for (tf::Node* node : at_level.fused) {
      TF_RETURN_IF_ERROR(follow_gradient(node, GradientInput(*node)));
    }
  }
  TF_RETURN_IF_ERROR(CheckCriticalSections(waiting, *graph));
  // The nodes downstream of updates and averages, also over control edges.
  const NodeSet following = Downstream(waiting, [](const tf::Edge&) { return true; });
  TF_RETURN_IF_ERROR(ExecuteBefore(begin, conditional, following, graph));
  Chain(exchanges, levels, updates.by_gradient, begin, graph);
  TF_RETURN_IF_ERROR(CheckAcyclic(*graph));
  return num_reductions;
}

}  // namespace tensorbow
