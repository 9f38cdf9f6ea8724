// Central values between learning runs: values that nobody reads release their memory
// (VariableTable::ReleaseStale, PublishReleased), and all hosts begin with the same
// values (AgreeOnCentral).
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cc/replicas/variable_table.h"
#include "cc/support/freed_memory.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// A program that looks at the central model more often keeps it.
constexpr int kRunsUntilReleased = 4;

}  // namespace

absl::Status VariableTable::ReleaseStale(const std::set<std::string>& kept) {
  int64_t bytes = 0;
  for (Variable& variable : variables_) {
    if (!variable.central_stale || variable.released || variable.eager ||
        variable.stale_for < kRunsUntilReleased ||
        !variable.replicas[0].initialised() || kept.count(variable.node.name()) > 0) {
      continue;
    }
    VariableStorage central;
    TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
    if (!central.initialised()) continue;
    tf::mutex_lock lock(*central.mu());
    bytes += central.value().TotalBytes();
    central.Clear();
    variable.released = true;
  }
  ReturnFreedMemory(bytes);
  return absl::OkStatus();
}

absl::Status VariableTable::PublishReleased() {
  for (Variable& variable : variables_) {
    if (variable.released) TF_RETURN_IF_ERROR(PublishOne(&variable));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::AgreeOnCentral(const std::vector<int>& ids,
                                           const Agreement& agree) {
  std::map<std::string, tf::Tensor> values;
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (!variable.replicas_stale) continue;
    if (variable.central_stale) TF_RETURN_IF_ERROR(PublishOne(&variable));
    TF_ASSIGN_OR_RETURN(const std::optional<tf::Tensor> value, CentralTensor(variable));
    if (!value.has_value()) return absl::OkStatus();  // nothing begins yet
    values.emplace(variable.node.name(), tf::tensor::DeepCopy(*value));
  }
  if (values.empty()) return absl::OkStatus();
  TF_RETURN_IF_ERROR(agree(&values));
  for (int id : ids) {
    const auto value = values.find(variables_[id].node.name());
    if (value == values.end()) continue;
    VariableStorage central;
    TF_RETURN_IF_ERROR(OpenCentral(variables_[id], &central));
    tf::mutex_lock lock(*central.mu());
    TF_RETURN_IF_ERROR(
        central.Assign(value->second, {central_device_->GetAllocator({})}));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
