#include "cc/passes/task/fuse_updates.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/graph/updates.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Returns the op that does the same as `update` and corrects; one of ours may do so
// itself.
std::string FusedOp(const tf::Node& update) {
  const std::string& op = update.type_string();
  return absl::StartsWith(op, "TensorBow") ? op : absl::StrCat("TensorBow", op);
}

// Returns whether that op exists, with a kernel for the device and element type.
bool HasFusedOp(const tf::Node& update) {
  tf::NodeDef fused = update.def();
  fused.set_op(FusedOp(update));
  tf::DeviceNameUtils::ParsedName device;
  return tf::DeviceNameUtils::ParseFullName(update.assigned_device_name(), &device) &&
         tf::KernelDefAvailable(tf::DeviceType(device.type), fused);
}

// Replaces `update` by the fused op.
absl::Status Replace(tf::Node* update, int member, tf::Graph* graph) {
  tf::NodeDef definition = update->def();
  definition.set_op(FusedOp(*update));
  auto& attributes = *definition.mutable_attr();
  attributes["member"].set_i(member);
  TF_RETURN_IF_ERROR(ReplaceNode(update, std::move(definition), graph).status());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<bool>> FuseUpdates(
    const std::vector<std::string>& trained,
    const std::function<bool(const tf::Node&)>& may_fuse, TaskGraph* task) {
  std::map<std::string, int> members;
  for (size_t i = 0; i < trained.size(); ++i) {
    members.emplace(trained[i], static_cast<int>(i));
  }
  std::vector<bool> fused(trained.size(), false);
  for (TaskPart& part : task->parts) {
    std::vector<std::pair<tf::Node*, int>> updates;
    for (tf::Node* node : part.graph->op_nodes()) {
      const auto member = members.find(node->name());
      if (member == members.end() || !FactsOf(node->type_string()).creates_variable)
        continue;
      tf::Node* const update = OnlyUpdate(*node);
      if (update != nullptr && may_fuse(*update) && HasFusedOp(*update)) {
        updates.emplace_back(update, member->second);
      }
    }
    for (const auto& [update, member] : updates) {
      TF_RETURN_IF_ERROR(Replace(update, member, part.graph.get()));
      fused[member] = true;
    }
  }
  return fused;
}

}  // namespace tensorbow
