// Variables that eager code owns: VariableTable::DetectEagerWrites, PublishEager.
//
// The session's central variable is the very Var of the eager handle. Nobody reports
// what eager code writes, so that values are compared: those of learners' copies with
// the central value where that is learner 0's replica, else what was published last.
// A variable of which learners share one copy has nothing to compare.
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "cc/learner/specialise.h"
#include "cc/replicas/variable_table.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool HaveSameBits(const tf::Tensor& a, const tf::Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         tf::DataTypeCanUseMemcpy(a.dtype()) &&
         (a.TotalBytes() == 0 || std::memcmp(a.data(), b.data(), a.TotalBytes()) == 0);
}

}  // namespace

absl::Status VariableTable::PlaceEager(const Variable& variable) {
  tf::ResourceMgr* const resources = central_device_->resource_manager();
  std::string name;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(variable.node, "shared_name", &name));
  const std::string own_place = LearnerContainer(0, variable.container);
  const absl::Status deleted = resources->Delete<tf::Var>(own_place, name);
  if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  if (!InPlace(variable)) return absl::OkStatus();
  const std::string& place =
      variable.container.empty() ? resources->default_container() : variable.container;
  tf::Var* central = nullptr;
  TF_RETURN_IF_ERROR(resources->Lookup<tf::Var>(place, name, &central));
  // Create() takes the reference over, even if it fails.
  return resources->Create(own_place, name, central);
}

void VariableTable::RecordPublished(const std::optional<tf::Tensor>& central,
                                    Variable* variable) const {
  if (!variable->eager || InPlace(*variable) || !central.has_value()) return;
  variable->published = std::make_unique<tf::Tensor>(tf::tensor::DeepCopy(*central));
}

void VariableTable::DetectEagerWrites(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (!variable.eager || variable.replicas_stale) continue;
    bool written = false;
    if (InPlace(variable)) {
      const tf::tf_shared_lock lock(*variable.replicas[0].mu());
      for (size_t j = 1; j < NumCopies(variable); ++j) {
        written |=
            !HaveSameBits(variable.replicas[0].value(), variable.replicas[j].value());
      }
    } else {
      const auto central = CentralTensor(variable);
      written = variable.published == nullptr || !central.ok() ||
                !central->has_value() || !HaveSameBits(**central, *variable.published);
    }
    if (written) MarkAssigned(variable.node.name());
  }
}

absl::Status VariableTable::PublishEager(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (!variable.eager || !variable.central_stale) continue;
    TF_RETURN_IF_ERROR(PublishOne(&variable));
    TF_ASSIGN_OR_RETURN(const auto central, CentralTensor(variable));
    RecordPublished(central, &variable);
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
