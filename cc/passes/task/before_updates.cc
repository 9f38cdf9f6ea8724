#include "cc/passes/task/before_updates.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/graph/node_inputs.h"
#include "cc/graph/op_facts.h"
#include "cc/passes/task/refills.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace {

namespace tf = ::tensorflow;

// Executes refills of queues that the task takes from before `begin`. Otherwise a
// learner that waits for an element would wait for one that waits for its gradients.
absl::Status RefillBefore(tf::Node* begin, const NodeSet& conditional,
                          const NodeSet& after, tf::Graph* graph) {
  for (tf::Node* refill : Refills(*graph)) {
    const char* const what = conditional.count(refill) > 0 ? "in a conditional"
                             : after.count(refill) > 0     ? "after an update"
                                                           : nullptr;
    if (what != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "S-SGD cannot train while '", refill->name(), "' adds elements to a queue ",
          what,
          ": learners that take them would wait for ever. Use tensorbow.SMA(), or add "
          "them before the update"));
    }
    graph->AddControlEdge(refill, begin);
  }
  return absl::OkStatus();
}

// Executes reads of variables before `begin`, unless they follow from updates. That is
// the usual order in a stock session, whose gradients take longer than reads.
void ReadBefore(tf::Node* begin, const NodeSet& conditional, const NodeSet& after,
                tf::Graph* graph) {
  std::vector<tf::Node*> reads;
  for (tf::Node* node : graph->op_nodes()) {
    if (node->type_string() == "ReadVariableOp" && conditional.count(node) == 0 &&
        after.count(node) == 0) {
      reads.push_back(node);
    }
  }
  for (tf::Node* read : reads) graph->AddControlEdge(read, begin);
}

// Executes the program's assertions before `begin`, also those beside the gradients, so
// that they fail before anything is updated. An assertion in a conditional is
// represented by the end of the conditional. One that depends on an update stays in its
// place.
void CheckBefore(tf::Node* begin, const NodeSet& conditional, const NodeSet& after,
                 tf::Graph* graph) {
  std::vector<tf::Node*> pending;
  for (tf::Node* node : graph->op_nodes()) {
    if (IsOp(node, {"Assert", "CheckNumerics", "CheckNumericsV2"})) {
      pending.push_back(node);
    }
  }
  std::set<tf::Node*> checks;  // nodes that are executed in every task
  NodeSet seen;
  while (!pending.empty()) {
    tf::Node* const node = pending.back();
    pending.pop_back();
    if (!node->IsOp() || after.count(node) > 0 || !seen.insert(node).second) continue;
    if (conditional.count(node) == 0) {
      checks.insert(node);
      continue;
    }
    for (const tf::Edge* edge : node->out_edges()) pending.push_back(edge->dst());
  }
  for (tf::Node* check : checks) graph->AddControlEdge(check, begin);
}

NodeSet Following(std::vector<const tf::Node*> nodes) {
  return Downstream(std::move(nodes), [](const tf::Edge&) { return true; });
}

// Returns whether the op's result may share the buffer of an input.
bool SharesBuffer(const tf::Node* op) {
  return IsOp(
      op, {"Bitcast",      "Cast",     "ConcatV2",  "Enter",           "ExpandDims",
           "Identity",     "Merge",    "Pack",      "PreventGradient", "RefEnter",
           "RefIdentity",  "RefMerge", "RefSwitch", "Reshape",         "Slice",
           "Snapshot",     "Split",    "SplitV",    "Squeeze",         "StopGradient",
           "StridedSlice", "Switch",   "Unpack"});
}

// Returns the ops that use a variable's value, also through the buffer of a reference
// variable, in which they see later writes.
NodeSet UsersOf(const tf::Node& variable) {
  const NodeSet reached = Downstream({&variable}, [&variable](const tf::Edge& edge) {
    return !edge.IsControlEdge() && edge.dst()->IsOp() &&
           (edge.src() == &variable || SharesBuffer(edge.src()));
  });
  NodeSet users;
  for (const tf::Node* node : reached) {
    if (!SharesBuffer(node) &&
        !IsOp(node, {"Rank", "Shape", "ShapeN", "Size", "VariableShape"})) {
      users.insert(node);
    }
  }
  return users;
}

}  // namespace

absl::Status CheckOrderOfWrites(const std::vector<VariableWrite>& writes,
                                const ExchangeLevels& levels) {
  for (const auto& [variable, write] : writes) {
    if (levels.Counts(*write)) continue;
    const NodeSet following = Following({write});
    for (const tf::Node* user : UsersOf(*variable)) {
      if (user == write || following.count(user) > 0 ||
          Following({user}).count(write) > 0) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "'", ProgramsName(user->name()), "' uses variable '", variable->name(),
          "' in no order with '", ProgramsName(write->name()), "', which writes it"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCriticalSections(const std::vector<const tf::Node*>& exchanges,
                                   const tf::Graph& graph) {
  for (const tf::Node* lock : graph.op_nodes()) {
    if (lock->type_string() != "MutexLock") continue;
    const NodeSet entered = Following({lock});
    std::vector<const tf::Node*> inside;
    for (const tf::Node* exchange : exchanges) {
      if (entered.count(exchange) > 0) inside.push_back(exchange);
    }
    const NodeSet later = Following(std::move(inside));
    for (const tf::Edge* held : lock->out_edges()) {
      if (held->IsControlEdge() || later.count(held->dst()) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "S-SGD makes learners wait for each other's gradients, and they would wait "
          "for ever in the critical section of '",
          lock->name(), "', which only one enters. Update outside of it"));
    }
  }
  return absl::OkStatus();
}

absl::Status ExecuteBefore(tf::Node* begin, const NodeSet& conditional,
                           const NodeSet& after, tf::Graph* graph) {
  ReadBefore(begin, conditional, after, graph);
  TF_RETURN_IF_ERROR(RefillBefore(begin, conditional, after, graph));
  CheckBefore(begin, conditional, after, graph);
  return absl::OkStatus();
}

}  // namespace tensorbow
