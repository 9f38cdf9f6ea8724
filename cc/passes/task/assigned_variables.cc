#include "cc/passes/task/assigned_variables.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "cc/graph/downstream.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool IsAssignment(const tf::Node& node) {
  return IsOp(&node,
              {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"});
}

bool HasElementType(tf::DataType dtype) {
  return dtype == tf::DT_FLOAT || dtype == tf::DT_DOUBLE || dtype == tf::DT_HALF ||
         dtype == tf::DT_BFLOAT16;
}

// Returns the variable's writes; nullopt if it may be written otherwise.
std::optional<std::vector<tf::Node*>> PlainWritesOf(const tf::Node& handle) {
  std::vector<tf::Node*> writes;
  for (const tf::Edge* edge : handle.out_edges()) {
    if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    tf::Node* const user = edge->dst();
    const OpFacts& facts = FactsOf(user->type_string());
    if (facts.only_reads_resource && !facts.keeps_resource) continue;
    if (!IsAssignment(*user) || edge->dst_input() != 0) return std::nullopt;
    writes.push_back(user);
  }
  return writes;
}

std::pair<std::string, std::string> VariableName(const tf::Node& handle) {
  std::string container, name;
  tf::TryGetNodeAttr(handle.attrs(), "container", &container);
  tf::TryGetNodeAttr(handle.attrs(), "shared_name", &name);
  return {container, name.empty() ? handle.name() : name};
}

// Sorts the writes. Returns whether each follows from the one before.
bool SortWrites(const tf::Graph& graph, AssignedVariable* variable) {
  struct Write {
    tf::Node* node;
    Followers followers;
    int64_t place = 0;  // the number of writes before it
  };
  std::vector<Write> writes;
  for (tf::Node* node : variable->writes) {
    writes.push_back({node, FollowersOf({node}, graph)});
  }
  for (Write& write : writes) {
    write.place = std::count_if(writes.begin(), writes.end(), [&](const Write& other) {
      return other.followers[write.node->id()];
    });
  }
  std::sort(writes.begin(), writes.end(),
            [](const Write& a, const Write& b) { return a.place < b.place; });
  variable->writes.clear();
  for (Write& write : writes) {
    // Writes have distinct positions if they have one order.
    if (write.place != static_cast<int64_t>(variable->writes.size())) return false;
    variable->writes.push_back(write.node);
    variable->after.push_back(std::move(write.followers));
  }
  return true;
}

}  // namespace

Followers FollowersOf(const std::vector<const tf::Node*>& nodes,
                      const tf::Graph& graph) {
  Followers followers(graph.num_node_ids(), false);
  std::vector<const tf::Node*> pending = nodes;
  while (!pending.empty()) {
    const tf::Node* const node = pending.back();
    pending.pop_back();
    for (const tf::Edge* edge : node->out_edges()) {
      if (followers[edge->dst()->id()]) continue;
      followers[edge->dst()->id()] = true;
      pending.push_back(edge->dst());
    }
  }
  return followers;
}

std::optional<int> AssignedVariable::WritesBefore(const tf::Node& read) const {
  int count = 0;
  while (count < static_cast<int>(writes.size()) && after[count][read.id()]) ++count;
  if (count == static_cast<int>(writes.size())) return count;
  // All other writes must follow from it.
  std::vector<const tf::Node*> pending{&read};
  std::set<const tf::Node*> seen;
  while (!pending.empty()) {
    const tf::Node* const node = pending.back();
    pending.pop_back();
    if (node == writes[count]) return count;
    for (const tf::Edge* edge : node->out_edges()) {
      if (seen.insert(edge->dst()).second) pending.push_back(edge->dst());
    }
  }
  return std::nullopt;
}

std::map<const tf::Node*, AssignedVariable> FindAssignedVariables(
    const tf::Graph& graph) {
  std::map<const tf::Node*, AssignedVariable> found;
  std::map<std::pair<std::string, std::string>, int> nodes_of;
  const NodeSet conditional = Conditional(graph);
  for (tf::Node* node : graph.op_nodes()) {
    if (!FactsOf(node->type_string()).creates_variable) continue;
    ++nodes_of[VariableName(*node)];
    AssignedVariable variable;
    variable.handle = node;
    tf::PartialTensorShape shape;
    if (node->type_string() != "VarHandleOp" ||
        !tf::TryGetNodeAttr(node->attrs(), "dtype", &variable.dtype) ||
        !HasElementType(variable.dtype) ||
        !tf::GetNodeAttr(node->attrs(), "shape", &shape).ok() ||
        !shape.AsTensorShape(&variable.shape)) {
      continue;
    }
    std::optional<std::vector<tf::Node*>> writes = PlainWritesOf(*node);
    if (!writes.has_value() || writes->empty() ||
        std::any_of(writes->begin(), writes->end(), [&](const tf::Node* write) {
          return conditional.count(write) > 0;
        })) {
      continue;
    }
    variable.writes = *std::move(writes);
    if (SortWrites(graph, &variable)) found.emplace(node, std::move(variable));
  }
  for (auto it = found.begin(); it != found.end();) {
    it = nodes_of[VariableName(*it->first)] > 1 ? found.erase(it) : std::next(it);
  }
  return found;
}

}  // namespace tensorbow
