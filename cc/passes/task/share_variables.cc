#include "cc/passes/task/share_variables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/central_model/central_model.h"
#include "cc/graph/downstream.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "cc/passes/task/reduce_gradients.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

NodeSet Behind(const tf::Node& start) {
  return Downstream({&start}, [](const tf::Edge&) { return true; });
}

bool IsResource(const tf::Node& variable) {
  return variable.output_type(0) == tf::DT_RESOURCE;
}

// Returns the inputs of an update that are variables.
std::vector<const tf::Edge*> VariableInputs(const tf::Node& update) {
  std::vector<const tf::Edge*> inputs;
  for (const tf::Edge* edge : update.in_edges()) {
    if (edge->IsControlEdge()) continue;
    const tf::DataType type = update.input_type(edge->dst_input());
    if (type == tf::DT_RESOURCE || tf::IsRefType(type)) inputs.push_back(edge);
  }
  return inputs;
}

// Returns whether the variable is at most a slice: copies of it cost less than the
// exchange that a shared one would need.
bool IsSmall(const tf::Node& variable) {
  tf::PartialTensorShape shape;
  return tf::GetNodeAttr(variable.attrs(), "shape", &shape).ok() &&
         shape.IsFullyDefined() && shape.num_elements() <= CentralModel::kSliceElements;
}

// The uses of one variable in a task.
struct Use {
  bool sharable = true;
  tf::Node* update = nullptr;  // null: it is only read
  std::vector<tf::Node*> readers;
};

Use UseOf(const tf::Node& variable) {
  Use use;
  use.sharable = variable.attrs().Find(kAggregationAttribute) == nullptr;
  for (const tf::Edge* edge : variable.out_edges()) {
    tf::Node* const user = edge->dst();
    if (edge->IsControlEdge() || !user->IsOp()) continue;
    const bool reads = IsResource(variable)
                           ? FactsOf(user->type_string()).only_reads_resource &&
                                 !FactsOf(user->type_string()).keeps_resource
                           : !tf::IsRefType(user->input_type(edge->dst_input()));
    if (reads) {
      use.readers.push_back(user);
    } else if (IsFusedUpdate(*user) && use.update == nullptr) {
      use.update = user;
    } else {
      use.sharable = false;
    }
  }
  return use;
}

tf::Node* FindBegin(const tf::Graph& graph) {
  for (tf::Node* node : graph.op_nodes()) {
    if (node->type_string() == kBeginUpdates) return node;
  }
  return nullptr;
}

// Returns the uses of all variables, by node. Variables that cannot be shared on their
// own account are marked.
std::map<const tf::Node*, Use, tf::NodeComparatorName> UsesOf(const tf::Graph& graph,
                                                              const tf::Node& begin) {
  const NodeSet after_gradients = Behind(begin), conditional = Conditional(graph);
  std::map<const tf::Node*, Use, tf::NodeComparatorName> uses;
  std::map<std::tuple<std::string, std::string>, int> names;  // nodes of one variable
  const auto name_of = [](const tf::Node& node) {
    std::string container, name;
    tf::TryGetNodeAttr(node.attrs(), "container", &container);
    tf::TryGetNodeAttr(node.attrs(), "shared_name", &name);
    return std::make_tuple(container, name.empty() ? node.name() : name);
  };
  for (const tf::Node* node : graph.op_nodes()) {
    if (!FactsOf(node->type_string()).creates_variable) continue;
    ++names[name_of(*node)];
    Use use = UseOf(*node);
    if (use.update != nullptr) {
      use.sharable &= !IsSmall(*node);
      const NodeSet after_update = Behind(*use.update);
      for (const tf::Node* reader : use.readers) {
        // A read before the updates must be executed in every task, since learners wait
        // for it; any other read must follow from the variable's update.
        use.sharable &= after_gradients.count(reader) == 0
                            ? conditional.count(reader) == 0
                            : after_update.count(reader) > 0;
      }
    }
    uses.emplace(node, std::move(use));
  }
  tf::DataType references = tf::DT_INVALID;
  for (auto& [node, use] : uses) {
    use.sharable &= names[name_of(*node)] == 1;
    if (IsResource(*node) || use.update == nullptr) continue;
    const tf::DataType type = node->output_type(0);
    if (references == tf::DT_INVALID) references = type;
    use.sharable &= type == references;  // kBeginUpdates takes only one type of them
  }
  return uses;
}

}  // namespace

SharableVariables FindSharableVariables(const TaskGraph& task) {
  SharableVariables found;
  if (task.parts.size() != 1) return found;
  const tf::Graph& graph = *task.parts[0].graph;
  const tf::Node* const begin = FindBegin(graph);
  if (begin == nullptr) return found;
  const auto uses = UsesOf(graph, *begin);
  for (const auto& [variable, use] : uses) {
    found.used.insert(variable->name());
    if (use.update == nullptr) {
      if (use.sharable) found.groups.push_back({variable->name()});
      continue;
    }
    // Groups variables by the update's first input.
    const std::vector<const tf::Edge*> inputs = VariableInputs(*use.update);
    std::vector<std::string> group;
    bool sharable = true, first = false;
    for (const tf::Edge* edge : inputs) {
      const auto slot = uses.find(edge->src());
      sharable &= slot != uses.end() && slot->second.sharable;
      first |= edge->dst_input() == 0 && edge->src() == variable;
      group.push_back(edge->src()->name());
    }
    if (sharable && first) found.groups.push_back(std::move(group));
  }
  return found;
}

absl::Status ShareVariables(const std::set<std::string>& shared, TaskGraph* task,
                            int* num_gradients) {
  if (shared.empty()) return absl::OkStatus();
  tf::Graph* const graph = task->parts[0].graph.get();
  tf::Node* begin = FindBegin(*graph);
  const NodeSet after_gradients = Behind(*begin);
  std::vector<tf::Node*> resources, references;
  for (const auto& [variable, use] : UsesOf(*graph, *begin)) {
    if (shared.count(variable->name()) == 0 || use.update == nullptr) continue;
    use.update->ClearAttr("shared");
    use.update->AddAttr("shared", true);
    (IsResource(*variable) ? resources : references)
        .push_back(const_cast<tf::Node*>(variable));
    for (tf::Node* reader : use.readers) {
      if (after_gradients.count(reader) == 0) graph->AddControlEdge(reader, begin);
    }
  }
  if (resources.empty() && references.empty()) return absl::OkStatus();
  tf::NodeDef definition = begin->def();
  auto& attributes = *definition.mutable_attr();
  attributes["N"].set_i(static_cast<int64_t>(resources.size()));
  attributes["M"].set_i(static_cast<int64_t>(references.size()));
  if (!references.empty()) {
    attributes["T"].set_type(tf::RemoveRefType(references[0]->output_type(0)));
  }
  attributes["index"].set_i((*num_gradients)++);
  std::vector<tf::Node*>& variables = resources;
  variables.insert(variables.end(), references.begin(), references.end());
  auto& inputs = *definition.mutable_input();
  for (const tf::Node* variable : variables) definition.add_input(variable->name());
  std::rotate(inputs.begin(), inputs.end() - static_cast<int>(variables.size()),
              inputs.end());  // data precedes control
  TF_ASSIGN_OR_RETURN(begin, ReplaceNode(begin, std::move(definition), graph));
  for (size_t i = 0; i < variables.size(); ++i) {
    graph->AddEdge(variables[i], 0, begin, static_cast<int>(i));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
