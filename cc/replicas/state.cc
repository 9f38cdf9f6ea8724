// The saved state of replicated variables: VariableTable::GetState and SetStates.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/replicas/values.h"
#include "cc/replicas/variable_table.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Copies a value of the central model to a flat tensor.
tf::Tensor ModelTensor(const CentralModel::Variable& variable, const void* values) {
  const bool wide = variable.type() == ElementType::kFloat64;
  tf::Tensor tensor(wide ? tf::DT_DOUBLE : tf::DT_FLOAT, {variable.size()});
  if (variable.size() > 0) std::memcpy(tensor.data(), values, tensor.TotalBytes());
  return tensor;
}

// Lists what is saved of a variable of the model: where it is in the state, and in the
// model (null if the model does not keep it). The accumulation type is float or double;
// only the address is used here.
std::array<std::pair<tf::Tensor*, char*>, 3> SavedValues(
    ReplicaState* state, CentralModel::Variable* model) {
  return {{{&state->z, model->z<char>()},
           {&state->previous, model->previous<char>()},
           {&state->average, model->average<char>()}}};
}

}  // namespace

absl::StatusOr<ReplicaState> VariableTable::GetState(int id) {
  const Variable& variable = variables_[id];
  ReplicaState state;
  state.name = variable.node.name();
  state.trained = variable.trained;
  state.generator = variable.generator;
  if (variable.replicas_stale) return state;
  TF_ASSIGN_OR_RETURN(state.replicas, HostValues(variable));
  state.learned_by.assign(variable.learned_by.begin(), variable.learned_by.end());
  if (variable.model_index >= 0) {
    TF_RETURN_IF_ERROR(Collect(variable));
    CentralModel::Variable& model = model_->variable(variable.model_index);
    for (const auto& [tensor, values] : SavedValues(&state, &model)) {
      if (values != nullptr) *tensor = ModelTensor(model, values);
    }
    state.model_iterations = model.iterations();
    const std::vector<int> present = synchroniser_->participants(variable.model_index);
    state.present.assign(present.begin(), present.end());
  }
  return state;
}

absl::StatusOr<std::map<std::string, tf::Tensor>> VariableTable::ModelStates() {
  std::map<std::string, tf::Tensor> values;
  for (const Variable& variable : variables_) {
    if (variable.model_index < 0) continue;
    TF_RETURN_IF_ERROR(Collect(variable));
    CentralModel::Variable& model = model_->variable(variable.model_index);
    ReplicaState kept;
    int part = 0;
    for (const auto& [tensor, data] : SavedValues(&kept, &model)) {
      const std::string name = absl::StrCat(variable.node.name(), "/", part++);
      if (data != nullptr) values[name] = ModelTensor(model, data);
    }
    tf::Tensor iterations(tf::DT_INT64, {});
    iterations.scalar<int64_t>()() = model.iterations();
    values[absl::StrCat(variable.node.name(), "/iterations")] = iterations;
  }
  return values;
}

void VariableTable::SetModelStates(const std::map<std::string, tf::Tensor>& values) {
  for (Variable& variable : variables_) {
    if (variable.model_index < 0) continue;
    CentralModel::Variable& model = model_->variable(variable.model_index);
    ReplicaState kept;
    int part = 0;
    for (const auto& [tensor, data] : SavedValues(&kept, &model)) {
      const std::string name = absl::StrCat(variable.node.name(), "/", part++);
      if (data == nullptr || model.size() == 0) continue;
      const tf::Tensor& value = values.at(name);
      std::memcpy(data, value.data(), value.TotalBytes());
    }
    const int64_t iterations =
        values.at(absl::StrCat(variable.node.name(), "/iterations"))
            .scalar<int64_t>()();
    model.Resume(iterations, iterations);
    synchroniser_->SetAllParticipants(variable.model_index);
    if (!variable.replicas_stale) variable.central_stale = true;
  }
}

bool VariableTable::Follows(int id) const {
  const Variable& variable = variables_[id];
  return follows_others(id) && variable.model_index < 0 && !variable.replicas.empty() &&
         variable.replicas[0].initialised() &&
         tf::DataTypeCanUseMemcpy(variable.replicas[0].value().dtype());
}

std::string VariableTable::Describe() const {
  std::string text;
  for (const auto& [name, id] : ids_) {
    const Variable& variable = variables_[id];
    if (variable.model_index < 0 && !Follows(id)) continue;
    const tf::Tensor& first = variable.replicas[0].value();
    absl::StrAppend(&text, name, " ", tf::DataTypeString(first.dtype()), " ",
                    first.shape().DebugString(), " ", variable.model_index, "\n");
  }
  return text;
}

absl::StatusOr<std::map<std::string, tf::Tensor>> VariableTable::FollowedStates()
    const {
  std::map<std::string, tf::Tensor> values;
  for (int id = 0; id < size(); ++id) {
    const Variable& variable = variables_[id];
    if (!Follows(id)) continue;
    const VariableStorage& first = variable.replicas[0];
    TF_ASSIGN_OR_RETURN(const tf::Tensor value, first.HostValue(MemoryOf(variable, 0)));
    values[variable.node.name()] = tf::tensor::DeepCopy(value);
  }
  return values;
}

absl::Status VariableTable::TakeOverStates(
    const std::map<std::string, tf::Tensor>& values) {
  for (int id = 0; id < size(); ++id) {
    const auto value = values.find(variables_[id].node.name());
    if (value == values.end()) continue;
    TF_RETURN_IF_ERROR(BroadcastOne(&variables_[id], value->second));
    // Else its central value, which has been written, goes to the replicas.
    if (!variables_[id].replicas_stale) variables_[id].central_stale = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplicaState> VariableTable::GetState(int id, int num_learners) {
  TF_ASSIGN_OR_RETURN(ReplicaState state, GetState(id));
  std::vector<tf::Tensor>& replicas = state.replicas;
  if (replicas.empty()) return state;
  const Variable& variable = variables_[id];
  const tf::DataType dtype = replicas[0].dtype();
  const Traits& traits = synchroniser_->traits();
  if (variable.trained && (traits.averages_models() || traits.merges_models())) {
    TF_ASSIGN_OR_RETURN(const tf::Tensor model, ModelValue(id, model_->as_it_is()));
    replicas.assign(num_learners, model);
    if (model_->merges()) state.z = state.previous = state.average;
  }
  const size_t count = num_learners;
  const bool summed = variable.summed && SumOf(dtype) != nullptr;
  if (summed && replicas.size() > count) {
    std::vector<tf::Tensor> leaving = {replicas[0]};
    leaving.insert(leaving.end(), replicas.begin() + count, replicas.end());
    tf::Tensor sum(dtype, replicas[0].shape());
    SumOf(dtype)(leaving, sum.data());
    replicas[0] = sum;
  }
  while (replicas.size() > count) replicas.pop_back();
  while (replicas.size() < count) {
    tf::Tensor own = tf::tensor::DeepCopy(replicas[0]);
    if (variable.generator) GiveOwnKey(static_cast<int>(replicas.size()), &own);
    if (summed && own.TotalBytes() > 0) std::memset(own.data(), 0, own.TotalBytes());
    replicas.push_back(std::move(own));
  }
  const auto gone = [num_learners](int64_t j) { return j >= num_learners; };
  state.learned_by.erase(
      std::remove_if(state.learned_by.begin(), state.learned_by.end(), gone),
      state.learned_by.end());
  if (!state.present.empty()) {
    state.present.resize(count);
    std::iota(state.present.begin(), state.present.end(), 0);
  }
  return state;
}

absl::Status VariableTable::CheckState(const VariableUse& use,
                                       const ReplicaState& state) const {
  if (state.replicas.empty() || !state.trained) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const ModelShape shape,
                      ModelShapeOf(state.name, state.replicas[0]));
  bool fits = true;
  for (const tf::Tensor& replica : state.replicas) {
    fits &= replica.shape() == state.replicas[0].shape();
  }
  const tf::DataType accumulator =
      shape.type == ElementType::kFloat64 ? tf::DT_DOUBLE : tf::DT_FLOAT;
  const auto check = [&](bool kept, const tf::Tensor& value) {
    fits &=
        !kept || (value.dtype() == accumulator && value.NumElements() == shape.size);
  };
  check(model_->keeps_z(), state.z);
  check(model_->keeps_previous(), state.previous);
  check(model_->keeps_average(), state.average);
  if (!fits) {
    return absl::DataLossError(absl::StrCat("The saved replicas of '", state.name,
                                            "' do not fit their central model"));
  }
  const int id = Find(use.node->name());
  const int index = id < 0 ? -1 : variables_[id].model_index;
  if (index >= 0 && model_->variable(index).size() != shape.size) {
    return absl::FailedPreconditionError(absl::StrCat(
        "The saved state has variable '", state.name, "' with ", shape.size,
        " elements; in this session it has ", model_->variable(index).size(),
        ". Load the state into a new session."));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::SetState(Variable* variable, const ReplicaState& state) {
  if (variable->shared) {  // until a program shares it again
    variable->replicas.clear();
    variable->shared = false;
  }
  TF_RETURN_IF_ERROR(OpenReplicas(variable));
  for (size_t j = FirstCopy(*variable); j < learners_.size(); ++j) {
    TF_RETURN_IF_ERROR(variable->replicas[j].Assign(
        state.replicas[j], MemoryOf(*variable, static_cast<int>(j))));
  }
  variable->replicas_stale = false;
  variable->learned_by = {state.learned_by.begin(), state.learned_by.end()};
  TF_ASSIGN_OR_RETURN(const auto central, CentralTensor(*variable));
  RecordPublished(central, variable);
  if (!state.trained || !keeps_model()) return absl::OkStatus();
  if (variable->model_index < 0) {
    TF_ASSIGN_OR_RETURN(const ModelShape shape,
                        ModelShapeOf(state.name, state.replicas[0]));
    variable->model_index = model_->Add(shape.type, shape.size);
  }
  CentralModel::Variable& model = model_->variable(variable->model_index);
  ReplicaState values = state;  // shares the tensors
  for (const auto& [tensor, to] : SavedValues(&values, &model)) {
    if (to == nullptr || tensor->NumElements() == 0) continue;
    std::memcpy(to, tensor->data(), tensor->TotalBytes());
  }
  model.Resume(state.model_iterations, state.model_iterations);
  synchroniser_->SetParticipants(variable->model_index,
                                 {state.present.begin(), state.present.end()});
  return absl::OkStatus();
}

absl::Status VariableTable::SetStates(const std::vector<VariableUse>& uses,
                                      const std::vector<ReplicaState>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    TF_RETURN_IF_ERROR(CheckState(uses[i], states[i]));
  }
  for (Variable& variable : variables_) {
    variable.replicas_stale = true;
    variable.central_stale = false;
    variable.learned_by.clear();
  }
  for (size_t i = 0; i < states.size(); ++i) {
    Variable& variable = variables_[Add(uses[i])];
    // Trained here but not where the state was saved: z is to begin at the central
    // value, and so are the replicas.
    if (states[i].replicas.empty() || (variable.trained && !states[i].trained))
      continue;
    TF_RETURN_IF_ERROR(SetState(&variable, states[i]));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::Place(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    const bool there = learners_[0]->KeepsOnAccelerator(variable.node.name());
    if (variable.replicas.empty() || variable.on_accelerator == there) continue;
    std::vector<tf::Tensor> values;
    TF_ASSIGN_OR_RETURN(values, HostValues(variable));
    variable.on_accelerator = there;
    for (size_t j = 0; j < values.size(); ++j) {
      if (!variable.replicas[j].initialised()) continue;
      variable.replicas[j].Clear();
      TF_RETURN_IF_ERROR(variable.replicas[j].Assign(
          values[j], MemoryOf(variable, static_cast<int>(j))));
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
