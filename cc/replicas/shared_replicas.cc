// Variables of which all learners have one copy: VariableTable::Share and
// Separate.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/replicas/variable_table.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

bool AreEqual(const std::vector<tf::Tensor>& values) {
  return std::all_of(values.begin(), values.end(), [&](const tf::Tensor& value) {
    return tf::DataTypeCanUseMemcpy(value.dtype()) &&
           value.shape() == values[0].shape() &&
           std::memcmp(value.data(), values[0].data(), value.TotalBytes()) == 0;
  });
}

}  // namespace

absl::Status VariableTable::PublishIfStale(Variable* variable) {
  if (!variable->replicas_stale) return absl::OkStatus();
  if (variable->central_stale) TF_RETURN_IF_ERROR(PublishOne(variable));
  variable->learned_by.clear();
  return absl::OkStatus();
}

absl::Status VariableTable::Share(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (variable.shared) continue;
    variable.replicas_stale |= variable.eager;  // the central value is up to date
    if (!variable.replicas.empty() && !variable.replicas_stale) {
      TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> values, HostValues(variable));
      // If the learners' values differ, all go on from the central value.
      variable.replicas_stale = !AreEqual(values);
    }
    TF_RETURN_IF_ERROR(PublishIfStale(&variable));
    for (size_t j = 1; j < variable.replicas.size(); ++j) variable.replicas[j].Clear();
    variable.replicas.clear();
    variable.shared = true;
    if (!variable.replicas_stale) TF_RETURN_IF_ERROR(OpenReplicas(&variable));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::Separate(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    const int id = Find(name);
    if (id < 0 || !variables_[id].shared) continue;
    Variable& variable = variables_[id];
    variable.replicas_stale |= variable.eager;
    TF_RETURN_IF_ERROR(PublishIfStale(&variable));
    variable.shared = false;
    variable.replicas.clear();
    if (variable.replicas_stale) continue;
    TF_RETURN_IF_ERROR(OpenReplicas(&variable));
    const tf::Tensor value = variable.replicas[0].value();
    for (size_t j = 1; j < variable.replicas.size(); ++j) {
      TF_RETURN_IF_ERROR(
          variable.replicas[j].Assign(value, MemoryOf(variable, static_cast<int>(j))));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
