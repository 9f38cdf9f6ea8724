#include "cc/training/replicated_variables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/rewrite/learner_graph.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/register_types.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// How the central model sees a tensor: as `size` elements of `type`.
struct ModelShape {
  ElementType type;
  int64_t size;
};
absl::StatusOr<ModelShape> ModelShapeOf(const std::string& name, const tf::Tensor& t) {
  switch (t.dtype()) {
    case tf::DT_FLOAT:
      return ModelShape{ElementType::kFloat32, t.NumElements()};
    case tf::DT_DOUBLE:
      return ModelShape{ElementType::kFloat64, t.NumElements()};
    case tf::DT_HALF:
      return ModelShape{ElementType::kFloat16, t.NumElements()};
    case tf::DT_BFLOAT16:
      return ModelShape{ElementType::kBfloat16, t.NumElements()};
    case tf::DT_COMPLEX64:
      return ModelShape{ElementType::kFloat32, 2 * t.NumElements()};
    case tf::DT_COMPLEX128:
      return ModelShape{ElementType::kFloat64, 2 * t.NumElements()};
    default:
      return absl::UnimplementedError(absl::StrCat(
          "Trainable variable '", name, "' has type ", tf::DataTypeString(t.dtype()),
          "; model averaging knows float, double, half, bfloat16 and complex types. "
          "Mark it trainable=False or train with one learner."));
  }
}

// mean ← Σ_j replicas[j] / L, the sum in learner order.
template <typename T, typename Accumulator>
void Mean(const std::vector<tf::Tensor>& replicas, void* mean) {
  const int64_t size = replicas[0].NumElements();
  const Accumulator count(static_cast<float>(replicas.size()));
  for (int64_t i = 0; i < size; ++i) {
    const T first = static_cast<const T*>(replicas[0].data())[i];
    bool equal = true;  // then the mean is exactly that, whatever their number
    Accumulator sum(0);
    for (const tf::Tensor& replica : replicas) {
      const T value = static_cast<const T*>(replica.data())[i];
      equal &= value == first;
      sum += static_cast<Accumulator>(value);
    }
    static_cast<T*>(mean)[i] = equal ? first : static_cast<T>(sum / count);
  }
}

// A function of all replicas, or null where the type has none.
using Aggregate = void (*)(const std::vector<tf::Tensor>&, void*);
Aggregate MeanOf(tf::DataType dtype) {
  switch (dtype) {
    case tf::DT_FLOAT:
      return &Mean<float, float>;
    case tf::DT_DOUBLE:
      return &Mean<double, double>;
    case tf::DT_HALF:
      return &Mean<Eigen::half, float>;
    case tf::DT_BFLOAT16:
      return &Mean<tf::bfloat16, float>;
    case tf::DT_COMPLEX64:
      return &Mean<tf::complex64, tf::complex64>;
    case tf::DT_COMPLEX128:
      return &Mean<tf::complex128, tf::complex128>;
    default:
      return nullptr;
  }
}

// sum ← Σ_j replicas[j], in learner order.
template <typename T>
void Sum(const std::vector<tf::Tensor>& replicas, void* sum) {
  const int64_t size = replicas[0].NumElements();
  for (int64_t i = 0; i < size; ++i) {
    T total(0);
    for (const tf::Tensor& replica : replicas) {
      total += static_cast<const T*>(replica.data())[i];
    }
    static_cast<T*>(sum)[i] = total;
  }
}

Aggregate SumOf(tf::DataType dtype) {
  switch (dtype) {
#define TENSORBOW_SUM(T)             \
  case tf::DataTypeToEnum<T>::value: \
    return &Sum<T>
    TENSORBOW_SUM(float);
    TENSORBOW_SUM(double);
    TENSORBOW_SUM(Eigen::half);
    TENSORBOW_SUM(tf::bfloat16);
    TENSORBOW_SUM(tf::complex64);
    TENSORBOW_SUM(tf::complex128);
    TENSORBOW_SUM(int8_t);
    TENSORBOW_SUM(uint8_t);
    TENSORBOW_SUM(int16_t);
    TENSORBOW_SUM(tf::uint16);
    TENSORBOW_SUM(int32_t);
    TENSORBOW_SUM(tf::uint32);
    TENSORBOW_SUM(int64_t);
    TENSORBOW_SUM(tf::uint64);
#undef TENSORBOW_SUM
    default:
      return nullptr;
  }
}

// Random generators of different learners must differ: the last word of the state is
// the key of every algorithm TensorFlow has.
void GiveOwnKey(int learner, tf::Tensor* state) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const int64_t words = state->NumElements();
  if (words == 0) return;
  const uint64_t offset = kOdd * static_cast<uint64_t>(learner);
  if (state->dtype() == tf::DT_INT64) {
    auto& key = state->flat<int64_t>()(words - 1);
    key = static_cast<int64_t>(static_cast<uint64_t>(key) + offset);
  } else if (state->dtype() == tf::DT_UINT64) {
    state->flat<tf::uint64>()(words - 1) += offset;
  }
}

}  // namespace

ReplicatedVariables::ReplicatedVariables(tf::Device* central_device,
                                         std::vector<Learner*> learners,
                                         CentralModel* model,
                                         Synchroniser* synchroniser)
    : central_device_(central_device),
      learners_(std::move(learners)),
      model_(model),
      synchroniser_(synchroniser) {}

ReplicatedVariables::~ReplicatedVariables() {
  std::set<std::string> containers;
  for (const Variable& variable : variables_) {
    for (size_t j = 0; j < variable.replicas.size(); ++j) {
      containers.insert(LearnerContainer(static_cast<int>(j), variable.container));
    }
  }
  variables_.clear();
  for (const std::string& container : containers) {
    central_device_->resource_manager()->Cleanup(container).IgnoreError();
  }
}

int ReplicatedVariables::Add(const VariableUse& use) {
  const auto [it, added] =
      ids_.try_emplace(use.node->name(), static_cast<int>(variables_.size()));
  if (added) {
    Variable variable;
    variable.node = *use.node;
    variable.container = use.node->attr().at("container").s();
    const auto aggregation = use.node->attr().find(kAggregationAttribute);
    if (aggregation != use.node->attr().end()) {
      const std::string& how = aggregation->second.s();
      variable.summed = how == "sum";
      variable.first_only = how == "first" || how == "generator";
      variable.generator = how == "generator";
    }
    variables_.push_back(std::move(variable));
  }
  Variable& variable = variables_[it->second];
  if (use.trained && !variable.trained) {
    variable.trained = true;
    ++num_trained_;
    variable.replicas_stale = true;  // the central model must get to know it
  }
  variable.generator |= use.generator;
  return it->second;
}

int ReplicatedVariables::Find(const std::string& name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? -1 : it->second;
}

absl::Status ReplicatedVariables::OpenCentral(const Variable& variable,
                                              VariableStorage* storage) const {
  return VariableStorage::Open(variable.node, variable.container, central_device_,
                               /*create=*/false, storage);
}

absl::StatusOr<std::optional<tf::Tensor>> ReplicatedVariables::CentralTensor(
    const Variable& variable) const {
  VariableStorage central;
  TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
  if (!central.initialised()) return std::nullopt;
  tf::tf_shared_lock lock(*central.mu());
  return central.value();
}

absl::Status ReplicatedVariables::Broadcast(const std::vector<int>& ids,
                                            std::vector<int>* uninitialised,
                                            bool* any) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (!variable.replicas_stale) continue;
    if (variable.central_stale) TF_RETURN_IF_ERROR(PublishOne(&variable));
    TF_ASSIGN_OR_RETURN(const std::optional<tf::Tensor> value, CentralTensor(variable));
    if (!value.has_value()) {
      uninitialised->push_back(id);
      continue;
    }
    TF_RETURN_IF_ERROR(BroadcastOne(&variable, *value));
    *any = true;
    variable.replicas_stale = false;
    variable.learned_by = 0;
  }
  return absl::OkStatus();
}

tf::Device* ReplicatedVariables::DeviceOf(const Variable& variable, int learner) const {
  Learner* const l = learners_[learner];
  return l->KeepsOnAccelerator(variable.node.name()) ? l->accelerator()->device()
                                                     : l->device();
}

Memory ReplicatedVariables::MemoryOf(const Variable& variable, int learner) const {
  Learner* const l = learners_[learner];
  const bool there = l->KeepsOnAccelerator(variable.node.name());
  return {DeviceOf(variable, learner)->GetAllocator({}),
          there ? l->accelerator() : nullptr};
}

absl::Status ReplicatedVariables::Collect(const Variable& variable) {
  std::vector<void*> replicas;  // perhaps not in host memory: the algorithm knows
  for (const VariableStorage& replica : variable.replicas) {
    replicas.push_back(replica.value().data());
  }
  const std::string error = synchroniser_->Collect(variable.model_index, replicas);
  return error.empty() ? absl::OkStatus() : absl::InternalError(error);
}

absl::StatusOr<std::vector<tf::Tensor>> ReplicatedVariables::HostValues(
    const Variable& variable, size_t count) const {
  std::vector<tf::Tensor> values;
  for (size_t j = 0; j < count; ++j) {
    TF_ASSIGN_OR_RETURN(tf::Tensor value, variable.replicas[j].HostValue(
                                              MemoryOf(variable, static_cast<int>(j))));
    values.push_back(std::move(value));
  }
  return values;
}

absl::Status ReplicatedVariables::OpenReplicas(Variable* variable) {
  for (size_t j = variable->replicas.size(); j < learners_.size(); ++j) {
    VariableStorage storage;
    TF_RETURN_IF_ERROR(VariableStorage::Open(
        variable->node, LearnerContainer(static_cast<int>(j), variable->container),
        DeviceOf(*variable, static_cast<int>(j)), /*create=*/true, &storage));
    variable->replicas.push_back(std::move(storage));
  }
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::BroadcastOne(Variable* variable,
                                               const tf::Tensor& value) {
  TF_RETURN_IF_ERROR(OpenReplicas(variable));
  for (size_t j = 0; j < learners_.size(); ++j) {
    tf::Tensor own = value;
    if (variable->generator && j > 0) {
      own = tf::tensor::DeepCopy(value);
      GiveOwnKey(static_cast<int>(j), &own);
    }
    if (variable->summed && !variable->trained && j > 0 &&
        SumOf(value.dtype()) != nullptr) {
      own = tf::Tensor(value.dtype(), value.shape());
      if (own.TotalBytes() > 0) std::memset(own.data(), 0, own.TotalBytes());
    }
    TF_RETURN_IF_ERROR(
        variable->replicas[j].Assign(own, MemoryOf(*variable, static_cast<int>(j))));
  }
  if (!variable->trained || !keeps_model()) return absl::OkStatus();

  TF_ASSIGN_OR_RETURN(const ModelShape shape,
                      ModelShapeOf(variable->node.name(), value));
  if (variable->model_index < 0) {
    variable->model_index = model_->Add(shape.type, shape.size);
  } else if (model_->variable(variable->model_index).size() != shape.size) {
    return absl::UnimplementedError(absl::StrCat(
        "Trained variable '", variable->node.name(), "' was given a new shape, ",
        value.shape().DebugString(), "; create a new session for it."));
  }
  model_->Assign(variable->model_index, value.data());
  synchroniser_->SetAllPresent(variable->model_index);
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::Locate(int id, int learner, int member,
                                         TrainedSet* set) {
  Variable& variable = variables_[id];
  VariableStorage& replica = variable.replicas[learner];
  const CentralModel::Variable& model = model_->variable(variable.model_index);
  if (!replica.initialised() ||
      replica.value().TotalBytes() != model.size() * ElementSizeBytes(model.type())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Learner ", learner, "'s replica of '", variable.node.name(),
        "' changed its shape during a learning run, which model averaging cannot "
        "follow."));
  }
  TF_ASSIGN_OR_RETURN(void* const weights,
                      replica.Unshared(MemoryOf(variable, learner)));
  set->set_weights(learner, member, weights);
  return absl::OkStatus();
}

void ReplicatedVariables::MarkLearned(const std::vector<int>& ids, int learners) {
  for (int id : ids) {
    variables_[id].central_stale = true;
    variables_[id].learned_by = std::max(variables_[id].learned_by, learners);
  }
}

absl::Status ReplicatedVariables::Publish(const std::vector<int>& ids) {
  for (int id : ids) {
    if (variables_[id].central_stale) TF_RETURN_IF_ERROR(PublishOne(&variables_[id]));
  }
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::PublishAll() {
  for (Variable& variable : variables_) {
    if (variable.central_stale) TF_RETURN_IF_ERROR(PublishOne(&variable));
  }
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::Gather(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (variable.learned_by == 0) continue;
    TF_RETURN_IF_ERROR(PublishOne(&variable));
    variable.replicas_stale = true;
    variable.learned_by = 0;
    if (variable.model_index < 0 || !model_->keeps_z()) continue;
    // Not the moving average, nor a z that lags.
    const tf::Tensor& replica = variable.replicas[0].value();
    VariableStorage central;
    TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
    tf::mutex_lock lock(*central.mu());
    void* data = nullptr;
    TF_RETURN_IF_ERROR(central.Overwrite(replica.dtype(), replica.shape(),
                                         central_device_->GetAllocator({}), &data));
    TF_RETURN_IF_ERROR(model_->lags()
                           ? CopyMeanTo(variable, data)
                           : CopyModelTo(variable, CentralModel::Which::kZ, data));
  }
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::CopyModelTo(const Variable& variable,
                                              CentralModel::Which which, void* values) {
  TF_RETURN_IF_ERROR(Collect(variable));
  model_->CopyTo(variable.model_index, which, values);
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::CopyMeanTo(const Variable& variable, void* values) {
  const Aggregate mean = MeanOf(variable.replicas[0].value().dtype());
  TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> all,
                      HostValues(variable, variable.replicas.size()));
  std::vector<tf::Tensor> present;
  for (int j : synchroniser_->present(variable.model_index)) present.push_back(all[j]);
  mean(present, values);
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::PublishOne(Variable* variable) {
  VariableStorage central;
  TF_RETURN_IF_ERROR(VariableStorage::Open(variable->node, variable->container,
                                           central_device_, /*create=*/true, &central));
  variable->central_stale = false;
  if (!variable->replicas[0].initialised()) return absl::OkStatus();
  const tf::Tensor& first = variable->replicas[0].value();  // perhaps not on the host
  tf::Allocator* const allocator = central_device_->GetAllocator({});
  tf::mutex_lock lock(*central.mu());
  const Aggregate aggregate = variable->summed       ? SumOf(first.dtype())
                              : variable->first_only ? nullptr
                                                     : MeanOf(first.dtype());
  const bool has_model = variable->model_index >= 0;
  const bool averages = synchroniser_->traits().averages != Traits::Averages::kNothing;
  // Where all replicas are the same, learner 0's stands for the trained variables.
  if (!has_model && (variable->trained || !averages || aggregate == nullptr)) {
    TF_ASSIGN_OR_RETURN(const tf::Tensor value,
                        variable->replicas[0].HostValue(MemoryOf(*variable, 0)));
    return central.Assign(value, {allocator});
  }
  void* data = nullptr;
  TF_RETURN_IF_ERROR(central.Overwrite(first.dtype(), first.shape(), allocator, &data));
  if (has_model) {
    return CopyModelTo(*variable,
                       model_->keeps_average() ? CentralModel::Which::kAverage
                                               : CentralModel::Which::kZ,
                       data);
  }
  // Learners that have had no task since the replicas were equal have nothing to say of
  // a mean.
  const size_t all = variable->replicas.size();
  const size_t count =
      variable->summed || variable->learned_by == 0 ? all : variable->learned_by;
  TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> values,
                      HostValues(*variable, count));
  aggregate(values, data);
  return absl::OkStatus();
}

void ReplicatedVariables::MarkAssigned(const std::string& name) {
  const int id = Find(name);
  if (id < 0) return;
  variables_[id].replicas_stale = true;
  variables_[id].central_stale = false;
  variables_[id].learned_by = 0;
}

absl::StatusOr<tf::Tensor> ReplicatedVariables::CentralValue(const tf::NodeDef& node) {
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

absl::StatusOr<tf::Tensor> ReplicatedVariables::ReplicaValue(int id, int learner) {
  const Variable& variable = variables_[id];
  if (variable.replicas_stale || variable.replicas.empty()) {
    return CentralValue(variable.node);
  }
  TF_ASSIGN_OR_RETURN(const tf::Tensor value, variable.replicas[learner].HostValue(
                                                  MemoryOf(variable, learner)));
  return tf::tensor::DeepCopy(value);
}

absl::StatusOr<tf::Tensor> ReplicatedVariables::ModelValue(int id,
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

absl::Status ReplicatedVariables::CopyReplicas(const std::vector<int>& ids, int from,
                                               int to) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (variable.generator || variable.summed) continue;
    if (!variable.replicas[from].initialised()) continue;
    TF_ASSIGN_OR_RETURN(const tf::Tensor value,
                        variable.replicas[from].HostValue(MemoryOf(variable, from)));
    TF_RETURN_IF_ERROR(variable.replicas[to].Assign(value, MemoryOf(variable, to)));
  }
  return absl::OkStatus();
}

// ------------------------------------------------------------------------- state

namespace {

// A value of the central model as a flat tensor.
tf::Tensor ModelTensor(const CentralModel::Variable& variable, const void* values) {
  const bool wide = variable.type() == ElementType::kFloat64;
  tf::Tensor tensor(wide ? tf::DT_DOUBLE : tf::DT_FLOAT, {variable.size()});
  if (variable.size() > 0) std::memcpy(tensor.data(), values, tensor.TotalBytes());
  return tensor;
}

// What is saved of a variable of the model: where it is in the state, and in the model
// (null if the model does not keep it). The accumulation type is float or double; only
// the address is used here.
std::array<std::pair<tf::Tensor*, char*>, 3> SavedValues(
    ReplicaState* state, CentralModel::Variable* model) {
  return {{{&state->z, model->z<char>()},
           {&state->previous, model->previous<char>()},
           {&state->average, model->average<char>()}}};
}

}  // namespace

absl::StatusOr<ReplicaState> ReplicatedVariables::GetState(int id) {
  const Variable& variable = variables_[id];
  ReplicaState state;
  state.name = variable.node.name();
  state.trained = variable.trained;
  state.generator = variable.generator;
  if (variable.replicas_stale) return state;
  TF_ASSIGN_OR_RETURN(state.replicas, HostValues(variable, variable.replicas.size()));
  if (variable.model_index >= 0) {
    TF_RETURN_IF_ERROR(Collect(variable));
    CentralModel::Variable& model = model_->variable(variable.model_index);
    for (const auto& [tensor, values] : SavedValues(&state, &model)) {
      if (values != nullptr) *tensor = ModelTensor(model, values);
    }
    state.model_iterations = model.iterations();
    const std::vector<int> present = synchroniser_->present(variable.model_index);
    state.present.assign(present.begin(), present.end());
  }
  return state;
}

absl::Status ReplicatedVariables::CheckState(const VariableUse& use,
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
  check(model_->lags(), state.previous);
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

absl::Status ReplicatedVariables::SetState(Variable* variable,
                                           const ReplicaState& state) {
  TF_RETURN_IF_ERROR(OpenReplicas(variable));
  for (size_t j = 0; j < learners_.size(); ++j) {
    TF_RETURN_IF_ERROR(variable->replicas[j].Assign(
        state.replicas[j], MemoryOf(*variable, static_cast<int>(j))));
  }
  variable->replicas_stale = false;
  variable->learned_by = static_cast<int>(learners_.size());
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
  synchroniser_->SetPresent(variable->model_index,
                            {state.present.begin(), state.present.end()});
  return absl::OkStatus();
}

absl::Status ReplicatedVariables::SetStates(const std::vector<VariableUse>& uses,
                                            const std::vector<ReplicaState>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    TF_RETURN_IF_ERROR(CheckState(uses[i], states[i]));
  }
  for (Variable& variable : variables_) {
    variable.replicas_stale = true;
    variable.central_stale = false;
    variable.learned_by = 0;
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

}  // namespace tensorbow
