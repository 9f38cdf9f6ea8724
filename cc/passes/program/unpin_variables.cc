#include "cc/passes/program/unpin_variables.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/program_graph.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using Names = absl::flat_hash_set<std::string>;

bool TakesAny(const tf::NodeDef& node, const Names& variables) {
  return std::any_of(node.input().begin(), node.input().end(),
                     [&](const std::string& input) {
                       const TensorName tensor = ParseTensor(input);
                       return !tensor.control && variables.contains(tensor.node);
                     });
}

// Returns whether the node has to be where one of the variables is.
bool IsWithAny(const tf::NodeDef& node, const Names& variables) {
  constexpr absl::string_view kBeside = "loc:@";
  const auto groups = node.attr().find("_class");
  if (groups == node.attr().end()) return false;
  for (absl::string_view group : groups->second.list().s()) {
    if (absl::ConsumePrefix(&group, kBeside) && variables.contains(group)) return true;
  }
  return false;
}

// Returns whether the device is the session's CPU. (Another CPU is an emulated
// accelerator.)
bool IsSessionCpu(const std::string& device) {
  tf::DeviceNameUtils::ParsedName name;
  return tf::DeviceNameUtils::ParseFullName(device, &name) && name.has_type &&
         name.type == tf::DEVICE_CPU && (!name.has_id || name.id == 0);
}

}  // namespace

bool UnpinVariables(const std::vector<std::string>& trained, tf::GraphDef* graph) {
  Names all, variables(trained.begin(), trained.end());
  for (const tf::NodeDef& node : graph->node()) {
    if (FactsOf(node.op()).creates_variable) all.insert(node.name());
  }
  Names slots;
  for (const tf::NodeDef& node : graph->node()) {
    if (FactsOf(node.op()).optimiser == OptimiserKind::kNone ||
        !TakesAny(node, variables)) {
      continue;
    }
    for (const std::string& input : node.input()) {
      const std::string producer(ParseTensor(input).node);
      if (all.contains(producer)) slots.insert(producer);
    }
  }
  variables.insert(slots.begin(), slots.end());
  bool changed = false;
  for (tf::NodeDef& node : *graph->mutable_node()) {
    if (!IsSessionCpu(node.device())) continue;
    if (!variables.contains(node.name()) && !TakesAny(node, variables) &&
        !IsWithAny(node, variables)) {
      continue;
    }
    node.clear_device();
    changed = true;
  }
  return changed;
}

}  // namespace tensorbow
