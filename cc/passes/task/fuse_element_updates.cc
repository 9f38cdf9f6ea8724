#include "cc/passes/task/fuse_element_updates.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "cc/arithmetic/element_program.h"
#include "cc/graph/node_inputs.h"
#include "cc/passes/task/assigned_variables.h"
#include "cc/passes/task/element_update.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr char kApplyElements[] = "TensorBowResourceApplyElements";

// Replaces the ops of an update by one op.
class ElementUpdateWriter {
 public:
  ElementUpdateWriter(const ElementUpdate& update, tf::Graph* graph)
      : update_(update), graph_(graph) {
    for (const AssignedVariable* array : update.arrays()) {
      writes_.insert(array->writes.begin(), array->writes.end());
    }
  }

  // Returns whether one op can replace all of them.
  bool IsPossible() {
    KeepWhatOthersUse();
    const Followers after = FollowersOf({writes_.begin(), writes_.end()}, *graph_);
    for (const auto& [read, before] : update_.reads()) {
      if (kept_.count(read) == 0) continue;
      if (before == 0 ? after[read->id()] : before < NumWritesOf(*read)) return false;
    }
    return !ForEachInput([&](const tf::Edge& edge) { return after[edge.src()->id()]; });
  }

  absl::Status Write() {
    tf::Node* const last = update_.arrays()[0]->writes.back();
    tf::NodeDef definition = Definition(*last);
    std::set<tf::Node*> before, after;
    ForEachInput([&](const tf::Edge& edge) {
      if (edge.IsControlEdge()) before.insert(edge.src());
      return false;
    });
    for (const tf::Node* write : writes_) {
      for (const tf::Edge* edge : write->out_edges()) {
        tf::Node* const user = edge->dst();
        if (user->IsOp() && (IsOutside(*user) || kept_.count(user) > 0)) {
          after.insert(user);
        }
      }
    }
    for (const auto& [read, count] : update_.reads()) {
      if (kept_.count(read) == 0) continue;
      (count == 0 ? before : after).insert(read);
    }
    const std::string device = last->assigned_device_name();
    for (tf::Node* write : writes_) graph_->RemoveNode(write);
    RemoveOps();
    absl::Status status;
    tf::Node* const op = graph_->AddNode(std::move(definition), &status);
    TF_RETURN_IF_ERROR(status);
    op->set_assigned_device_name(device);
    int input = 0;
    graph_->AddEdge(update_.arrays()[0]->handle, 0, op, input++);
    graph_->AddEdge(update_.gradient().node, update_.gradient().index, op, input++);
    for (size_t i = 1; i < update_.arrays().size(); ++i) {
      graph_->AddEdge(update_.arrays()[i]->handle, 0, op, input++);
    }
    for (const NodeOutput& scalar : update_.scalars()) {
      graph_->AddEdge(scalar.node, scalar.index, op, input++);
    }
    for (tf::Node* node : before) graph_->AddControlEdge(node, op);
    for (tf::Node* node : after) graph_->AddControlEdge(op, node);
    return absl::OkStatus();
  }

 private:
  bool IsOutside(const tf::Node& node) const {
    tf::Node* const key = const_cast<tf::Node*>(&node);
    return writes_.count(key) == 0 && update_.ops().count(key) == 0;
  }

  int NumWritesOf(const tf::Node& read) const {
    const tf::Node* const handle = InputOf(read, 0).node;
    for (const AssignedVariable* array : update_.arrays()) {
      if (array->handle == handle) return static_cast<int>(array->writes.size());
    }
    return 0;
  }

  // Keeps ops that others take something from or wait for, and the inputs of these.
  void KeepWhatOthersUse() {
    std::vector<tf::Node*> pending;
    for (tf::Node* node : update_.ops()) {
      for (const tf::Edge* edge : node->out_edges()) {
        if (edge->dst()->IsOp() && IsOutside(*edge->dst())) pending.push_back(node);
      }
    }
    while (!pending.empty()) {
      tf::Node* const node = pending.back();
      pending.pop_back();
      if (update_.ops().count(node) == 0 || !kept_.insert(node).second) continue;
      for (tf::Node* input : node->in_nodes()) pending.push_back(input);
    }
  }

  // Calls `f` for every edge into the ops from outside, until it returns true. Returns
  // whether it did.
  template <typename F>
  bool ForEachInput(const F& f) const {
    const auto any = [&](const tf::Node* node) {
      const auto& edges = node->in_edges();
      return std::any_of(edges.begin(), edges.end(), [&](const tf::Edge* edge) {
        return edge->src()->IsOp() && IsOutside(*edge->src()) && f(*edge);
      });
    };
    return std::any_of(writes_.begin(), writes_.end(), any) ||
           std::any_of(update_.ops().begin(), update_.ops().end(), any);
  }

  void RemoveOps() {
    for (tf::Node* node : update_.ops()) {
      if (kept_.count(node) == 0) graph_->RemoveNode(node);
    }
  }

  int NumberOf(const ElementUpdate::Operand& value) const {
    const int arrays = static_cast<int>(update_.arrays().size());
    const int scalars = static_cast<int>(update_.scalars().size());
    switch (value.kind) {
      case ElementUpdate::Operand::Kind::kArray:
        return value.index;
      case ElementUpdate::Operand::Kind::kGradient:
        return ElementProgram::OperandValue(arrays);
      case ElementUpdate::Operand::Kind::kScalar:
        return ElementProgram::ScalarValue(arrays) + value.index;
      case ElementUpdate::Operand::Kind::kInstruction:
        break;
    }
    return ElementProgram::InstructionValue(arrays, scalars) + value.index;
  }

  tf::NodeDef Definition(const tf::Node& last) const {
    tf::NodeDef definition;
    definition.set_name(last.name());
    definition.set_op(kApplyElements);
    definition.set_device(last.requested_device());
    tf::AddNodeAttr("T", update_.arrays()[0]->dtype, &definition);
    tf::AddNodeAttr("member", -1, &definition);
    tf::AddNodeAttr("num_slots", static_cast<int64_t>(update_.arrays().size()) - 1,
                    &definition);
    tf::AddNodeAttr("num_scalars", static_cast<int64_t>(update_.scalars().size()),
                    &definition);
    std::vector<std::string> operations;
    std::vector<int> arguments, results;
    for (const ElementUpdate::Instruction& instruction : update_.instructions()) {
      operations.emplace_back(NameOf(instruction.op));
      arguments.push_back(NumberOf(instruction.a));
      arguments.push_back(NumberOf(instruction.b));
    }
    for (const ElementUpdate::Operand& result : update_.results()) {
      results.push_back(NumberOf(result));
    }
    tf::AddNodeAttr("operations", operations, &definition);
    tf::AddNodeAttr("arguments", arguments, &definition);
    tf::AddNodeAttr("results", results, &definition);
    const auto add = [&](const tf::Node* node, int index) {
      definition.add_input(absl::StrCat(node->name(), ":", index));
    };
    add(update_.arrays()[0]->handle, 0);
    add(update_.gradient().node, update_.gradient().index);
    for (size_t i = 1; i < update_.arrays().size(); ++i) {
      add(update_.arrays()[i]->handle, 0);
    }
    for (const NodeOutput& scalar : update_.scalars()) add(scalar.node, scalar.index);
    const tf::OpDef* op = nullptr;
    if (graph_->op_registry()->LookUpOpDef(kApplyElements, &op).ok()) {
      tf::AddDefaultsToNodeDef(*op, &definition);
    }
    return definition;
  }

  const ElementUpdate& update_;
  tf::Graph* const graph_;
  std::set<tf::Node*> writes_;
  std::set<tf::Node*> kept_;
};

bool HasNoSlotOfAnother(const ElementUpdate& update,
                        const std::set<const tf::Node*>& trained) {
  const auto& arrays = update.arrays();
  return std::none_of(
      arrays.begin() + 1, arrays.end(),
      [&](const AssignedVariable* slot) { return trained.count(slot->handle) > 0; });
}

std::vector<const tf::Node*> AssignmentsOf(const AssignedVariables& variables) {
  std::vector<const tf::Node*> assignments;
  for (const auto& [handle, variable] : variables) {
    assignments.insert(assignments.end(), variable.writes.begin(),
                       variable.writes.end());
  }
  return assignments;
}

bool KeepsBits(const ElementUpdate& update) {
  const auto& instructions = update.instructions();
  return std::all_of(instructions.begin(), instructions.end(),
                     [](const auto& i) { return HasSameBits(i.op); });
}

absl::Status FuseElementUpdatesOf(const std::set<std::string>& names, bool same_bits,
                                  tf::Graph* graph,
                                  std::map<std::string, std::string>* replaced) {
  std::set<const tf::Node*> trained;
  for (const tf::Node* node : graph->op_nodes()) {
    if (names.count(node->name()) > 0) trained.insert(node);
  }
  AssignedVariables variables = FindAssignedVariables(*graph);
  std::vector<tf::Node*> candidates;
  for (const auto& [handle, variable] : variables) {
    if (trained.count(handle) > 0) candidates.push_back(variable.handle);
  }
  if (candidates.empty()) return absl::OkStatus();
  std::sort(candidates.begin(), candidates.end(), tf::NodeComparatorName());
  const StaticShapes shapes(*graph);
  const Followers updated = FollowersOf(AssignmentsOf(variables), *graph);
  for (tf::Node* handle : candidates) {
    for (const bool whole_gradient : {false, true}) {
      const auto variable = variables.find(handle);
      if (variable == variables.end()) break;  // it was a slot of another variable
      const auto update = ElementUpdate::Read(variables, variable->second, updated,
                                              shapes, whole_gradient);
      if (!update.has_value() || !HasNoSlotOfAnother(*update, trained) ||
          (same_bits && !KeepsBits(*update))) {
        continue;
      }
      ElementUpdateWriter writer(*update, graph);
      if (!writer.IsPossible()) continue;
      const auto& arrays = update->arrays();
      for (const AssignedVariable* array : arrays) {
        for (const tf::Node* write : array->writes) {
          (*replaced)[write->name()] = arrays[0]->writes.back()->name();
        }
      }
      TF_RETURN_IF_ERROR(writer.Write());
      std::vector<const tf::Node*> handles;
      for (const AssignedVariable* array : arrays) handles.push_back(array->handle);
      for (const tf::Node* done : handles) variables.erase(done);
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> FuseElementUpdates(
    const std::vector<std::string>& trained, bool same_bits, TaskGraph* task) {
  std::map<std::string, std::string> replaced;
  for (TaskPart& part : task->parts) {
    if (part.device->device_type() != tf::DEVICE_CPU) continue;
    TF_RETURN_IF_ERROR(FuseElementUpdatesOf({trained.begin(), trained.end()}, same_bits,
                                            part.graph.get(), &replaced));
  }
  return replaced;
}

}  // namespace tensorbow
