#include "cc/graph/updates.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "cc/graph/op_facts.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns whether every user of a resource variable's handle from `edge` on, also
// through loops and branches, only reads the variable.
bool OnlyReads(const tf::Edge& edge, std::set<const tf::Node*>* seen) {
  const tf::Node& user = *edge.dst();
  if (FactsOf(user.type_string()).only_reads_resource) return true;
  if (!user.IsControlFlow() && !user.IsIdentity()) return false;
  if (!seen->insert(&user).second) return true;
  for (const tf::Edge* next : user.out_edges()) {
    if (next->IsControlEdge() || !next->dst()->IsOp() ||
        user.output_type(next->src_output()) != tf::DT_RESOURCE) {
      continue;
    }
    if (!OnlyReads(*next, seen)) return false;
  }
  return true;
}

}  // namespace

std::vector<const tf::Edge*> WritingEdges(const tf::Node& variable) {
  std::vector<const tf::Edge*> writing;
  std::set<const tf::Node*> seen;
  const bool resource = variable.output_type(0) == tf::DT_RESOURCE;
  for (const tf::Edge* edge : variable.out_edges()) {
    if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    const bool reads = resource
                           ? OnlyReads(*edge, &seen)
                           : !tf::IsRefType(edge->dst()->input_type(edge->dst_input()));
    if (!reads) writing.push_back(edge);
  }
  return writing;
}

tf::Node* OnlyUpdate(const tf::Node& variable) {
  const std::vector<const tf::Edge*> writing = WritingEdges(variable);
  if (writing.size() != 1 || writing[0]->dst_input() != 0) return nullptr;
  tf::Node* const update = writing[0]->dst();
  // A user of the reference that the update returns may write the variable, too.
  for (const tf::Edge* edge : update->out_edges()) {
    if (edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    if (tf::IsRefType(edge->dst()->input_type(edge->dst_input()))) return nullptr;
  }
  return update;
}

int GradientInput(const tf::Node& update) {
  int gradient = -1;
  const auto& arguments = update.op_def().input_arg();
  for (int i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "indices") return -1;
    if (arguments[i].name() == "grad" || arguments[i].name() == "delta") gradient = i;
  }
  return gradient;
}

bool IsFusedUpdate(const tf::Node& update) {
  int64_t member = -1;
  return absl::StartsWith(update.type_string(), "TensorBow") &&
         tf::TryGetNodeAttr(update.attrs(), "member", &member) && member >= 0 &&
         GradientInput(update) >= 0;
}

absl::StatusOr<tf::Node*> ReplaceNode(tf::Node* old, tf::NodeDef definition,
                                      tf::Graph* graph) {
  const tf::OpDef* op = nullptr;
  TF_RETURN_IF_ERROR(graph->op_registry()->LookUpOpDef(definition.op(), &op));
  tf::AddDefaultsToNodeDef(*op, &definition);
  struct End {
    tf::Node* node;
    int index;
    int other;
  };
  std::vector<End> inputs, outputs;
  for (const tf::Edge* edge : old->in_edges()) {
    inputs.push_back({edge->src(), edge->src_output(), edge->dst_input()});
  }
  for (const tf::Edge* edge : old->out_edges()) {
    outputs.push_back({edge->dst(), edge->dst_input(), edge->src_output()});
  }
  const std::string device = old->assigned_device_name();
  graph->RemoveNode(old);
  absl::Status status;
  tf::Node* const replacement = graph->AddNode(std::move(definition), &status);
  TF_RETURN_IF_ERROR(status);
  replacement->set_assigned_device_name(device);
  for (const End& input : inputs) {
    graph->AddEdge(input.node, input.index, replacement, input.other);
  }
  for (const End& output : outputs) {
    graph->AddEdge(replacement, output.other, output.node, output.index);
  }
  return replacement;
}

}  // namespace tensorbow
