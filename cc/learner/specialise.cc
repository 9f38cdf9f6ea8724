#include "cc/learner/specialise.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/learner/random_state.h"
#include "tensorflow/core/common_runtime/memory_types.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// The distance between learners' seeds: no small offsets make two of them equal.
constexpr int64_t kSeedStride = 1000003;

// Changes the attributes of one node for one learner; returns true if any changed.
bool SpecialiseNode(const Specialisation& specialisation, const tf::OpDef& op,
                    tf::NodeDef* node) {
  auto& attributes = *node->mutable_attr();
  if (FactsOf(node->op()).creates_variable) {
    if (!specialisation.own_variables) return false;
    std::string* container = attributes["container"].mutable_s();
    const bool shared = specialisation.shared_variables.count(node->name()) > 0;
    *container = LearnerContainer(shared ? 0 : specialisation.learner, *container);
    return true;
  }
  if (!KeepsRandomState(*node, op)) return false;
  const auto seed = attributes.find("seed"), seed2 = attributes.find("seed2");
  int64_t first = seed->second.i(), second = seed2->second.i();
  if (first == 0 && second == 0) {  // unseeded
    if (!specialisation.seed.has_value()) return false;
    first = *specialisation.seed;
    second = static_cast<int64_t>(tf::Hash64(node->name()) >> 1);
  } else if (specialisation.random_stream == 0) {
    return false;
  }
  second += specialisation.random_stream * kSeedStride;
  seed->second.set_i(first);
  seed2->second.set_i(second);
  return true;
}

absl::Status SpecialisePart(const Specialisation& specialisation, TaskPart* part) {
  tf::Graph* const graph = part->graph.get();
  for (tf::Node* node : graph->op_nodes()) {
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
  const tf::DeviceType type(part->device->device_type());
  if (specialisation.own_random_state && type == tf::DeviceType(tf::DEVICE_CPU)) {
    TF_RETURN_IF_ERROR(ExposeRandomState(graph));
  }
  return tf::EnsureMemoryTypes(type, part->device->name(), graph);
}

}  // namespace

std::string LearnerContainer(int learner, const std::string& container) {
  const std::string own = absl::StrCat("tensorbow.learner.", learner);
  return container.empty() ? own : absl::StrCat(own, ".", container);
}

absl::StatusOr<TaskGraph> SpecialiseTaskGraph(const TaskGraph& task,
                                              const Specialisation& specialisation) {
  TaskGraph own = CopyOf(task);
  tf::FunctionLibraryDefinition* const functions = own.functions.get();
  for (const std::string& name : functions->ListFunctionNames()) {
    const auto record = functions->FindRecord(name);
    tf::FunctionDef definition = record->fdef();
    bool changed = false;
    for (tf::NodeDef& node : *definition.mutable_node_def()) {
      const tf::OpDef* op = nullptr;
      if (!functions->LookUpOpDef(node.op(), &op).ok()) continue;
      changed |= SpecialiseNode(specialisation, *op, &node);
    }
    if (changed) TF_RETURN_IF_ERROR(functions->ReplaceFunction(name, definition));
  }
  for (TaskPart& part : own.parts) {
    TF_RETURN_IF_ERROR(SpecialisePart(specialisation, &part));
  }
  return own;
}

}  // namespace tensorbow
