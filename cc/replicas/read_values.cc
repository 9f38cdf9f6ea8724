// Values of variables, read between runs: VariableTable::CentralValue and others.
#include "absl/strings/str_cat.h"
#include "cc/replicas/variable_table.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

absl::StatusOr<tf::Tensor> VariableTable::CentralValue(const tf::NodeDef& node) {
  const int id = Find(node.name());
  if (id >= 0) TF_RETURN_IF_ERROR(Publish({id}));
  VariableStorage central;
  TF_RETURN_IF_ERROR(VariableStorage::Open(node, node.attr().at("container").s(),
                                           central_device_, /*create=*/false,
                                           &central));
  if (!central.initialised()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Attempting to use uninitialized value ", node.name()));
  }
  tf::tf_shared_lock lock(*central.mu());
  return tf::tensor::DeepCopy(central.value());
}

absl::StatusOr<tf::Tensor> VariableTable::ReplicaValue(int id, int learner) {
  const Variable& variable = variables_[id];
  if (variable.replicas_stale || variable.replicas.empty()) {
    return CentralValue(variable.node);
  }
  TF_ASSIGN_OR_RETURN(const tf::Tensor value, variable.replicas[learner].HostValue(
                                                  MemoryOf(variable, learner)));
  return tf::tensor::DeepCopy(value);
}

absl::StatusOr<tf::Tensor> VariableTable::ModelValue(int id,
                                                     CentralModel::Which which) {
  const Variable& variable = variables_[id];
  if (variable.model_index < 0 || variable.replicas_stale) {
    return CentralValue(variable.node);
  }
  if (which == CentralModel::Which::kAverage && !model_->keeps_average()) {
    which = CentralModel::Which::kZ;
  }
  if (which == CentralModel::Which::kZ && !model_->keeps_z()) {
    return ReplicaValue(id, 0);  // all are the same
  }
  const tf::Tensor& replica = variable.replicas[0].value();
  tf::Tensor value(replica.dtype(), replica.shape());
  TF_RETURN_IF_ERROR(CopyModelTo(variable, which, value.data()));
  return value;
}

}  // namespace tensorbow
