#include "cc/replicas/variable_table.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"
#include "cc/learner/specialise.h"
#include "cc/passes/task/share_variables.h"
#include "cc/replicas/values.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace tensorbow {

namespace tf = ::tensorflow;

VariableTable::VariableTable(tf::Device* central_device, std::vector<Learner*> learners,
                             CentralModel* model, Synchroniser* synchroniser)
    : central_device_(central_device),
      learners_(std::move(learners)),
      model_(model),
      synchroniser_(synchroniser) {}

VariableTable::~VariableTable() {
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

int VariableTable::Add(const VariableUse& use) {
  const auto [it, added] =
      ids_.try_emplace(use.node->name(), static_cast<int>(variables_.size()));
  if (added) {
    Variable variable;
    variable.node = *use.node;
    variable.container = use.node->attr().at("container").s();
    const auto aggregation = use.node->attr().find(kAggregationAttribute);
    if (aggregation != use.node->attr().end()) {
      const std::string& how = aggregation->second.s();
      variable.summed = how == "sum" && !equal_replicas_;
      variable.first_only = how == "first" || how == "generator";
      variable.generator = how == "generator";
    }
    variable.first_only |= equal_replicas_;
    variable.eager = use.node->attr().count(kEagerAttribute) > 0;
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

int VariableTable::Find(const std::string& name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? -1 : it->second;
}

absl::Status VariableTable::OpenCentral(const Variable& variable,
                                        VariableStorage* storage) const {
  return VariableStorage::Open(variable.node, variable.container, central_device_,
                               /*create=*/false, storage);
}

absl::StatusOr<std::optional<tf::Tensor>> VariableTable::CentralTensor(
    const Variable& variable) const {
  VariableStorage central;
  TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
  if (!central.initialised()) return std::nullopt;
  tf::tf_shared_lock lock(*central.mu());
  return central.value();
}

absl::Status VariableTable::Broadcast(const std::vector<int>& ids,
                                      const Agreement& agree,
                                      std::vector<int>* uninitialised, bool* any) {
  if (agree != nullptr) TF_RETURN_IF_ERROR(AgreeOnCentral(ids, agree));
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
    RecordPublished(value, &variable);
    *any = true;
    variable.replicas_stale = false;
    variable.learned_by.clear();
  }
  return absl::OkStatus();
}

tf::Device* VariableTable::DeviceOf(const Variable& variable, int learner) const {
  Learner* const l = learners_[learner];
  if (variable.on_accelerator) return l->accelerator()->device();
  return l->device();
}

Memory VariableTable::MemoryOf(const Variable& variable, int learner) const {
  Learner* const l = learners_[learner];
  if (!variable.on_accelerator) return {l->device()->own_allocator(), nullptr};
  return {l->accelerator()->device()->GetAllocator({}), l->accelerator()};
}

absl::Status VariableTable::Collect(const Variable& variable) {
  std::vector<void*> replicas;  // perhaps not in host memory: the algorithm knows
  for (const VariableStorage& replica : variable.replicas) {
    replicas.push_back(replica.value().data());
  }
  const std::string error = synchroniser_->Collect(variable.model_index, replicas);
  return error.empty() ? absl::OkStatus() : absl::InternalError(error);
}

absl::StatusOr<std::vector<tf::Tensor>> VariableTable::HostValues(
    const Variable& variable) const {
  std::vector<tf::Tensor> values;
  for (size_t j = 0; j < variable.replicas.size(); ++j) {
    TF_ASSIGN_OR_RETURN(tf::Tensor value, variable.replicas[j].HostValue(
                                              MemoryOf(variable, static_cast<int>(j))));
    values.push_back(std::move(value));
  }
  return values;
}

absl::Status VariableTable::OpenReplicas(Variable* variable) {
  if (variable->replicas.empty()) {
    variable->on_accelerator = learners_[0]->KeepsOnAccelerator(variable->node.name());
    if (variable->eager) TF_RETURN_IF_ERROR(PlaceEager(*variable));
  }
  for (size_t j = variable->replicas.size(); j < learners_.size(); ++j) {
    VariableStorage storage;
    TF_RETURN_IF_ERROR(VariableStorage::Open(
        variable->node,
        LearnerContainer(variable->shared ? 0 : static_cast<int>(j),
                         variable->container),
        DeviceOf(*variable, static_cast<int>(j)), /*create=*/true, &storage));
    variable->replicas.push_back(std::move(storage));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::BroadcastOne(Variable* variable, const tf::Tensor& value) {
  TF_RETURN_IF_ERROR(OpenReplicas(variable));
  for (size_t j = FirstCopy(*variable); j < NumCopies(*variable); ++j) {
    tf::Tensor own = value;
    const int stream = first_random_stream_ + static_cast<int>(j);
    if (variable->generator && stream > 0) {
      own = tf::tensor::DeepCopy(value);
      GiveOwnKey(stream, &own);
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
  synchroniser_->SetAllParticipants(variable->model_index);
  return absl::OkStatus();
}

absl::Status VariableTable::TakeOver(int id, const tf::Tensor& value) {
  variables_[id].central_stale = true;
  return BroadcastOne(&variables_[id], value);
}

absl::Status VariableTable::Locate(int id, int learner, int member, TrainedSet* set) {
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

void VariableTable::MarkLearned(const std::vector<int>& ids,
                                const std::vector<int>& learners) {
  for (int id : ids) {
    variables_[id].central_stale = true;
    ++variables_[id].stale_for;
    variables_[id].learned_by.insert(learners.begin(), learners.end());
  }
}

absl::Status VariableTable::Publish(const std::vector<int>& ids) {
  for (int id : ids) {
    if (variables_[id].central_stale) TF_RETURN_IF_ERROR(PublishOne(&variables_[id]));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::PublishAll() {
  for (Variable& variable : variables_) {
    if (variable.central_stale) TF_RETURN_IF_ERROR(PublishOne(&variable));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::PublishModel(int id) {
  const Variable& variable = variables_[id];
  if (variable.model_index < 0 || variable.replicas_stale) return absl::OkStatus();
  TF_ASSIGN_OR_RETURN(const tf::Tensor model, ModelValue(id, model_->as_it_is()));
  VariableStorage central;
  TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
  tf::mutex_lock lock(*central.mu());
  return central.Assign(model, {central_device_->GetAllocator({})});
}

absl::Status VariableTable::Gather(const std::vector<int>& ids) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (variable.learned_by.empty()) continue;
    if (variable.central_stale || variable.model_index >= 0) {
      TF_RETURN_IF_ERROR(PublishOne(&variable));
    }
    variable.replicas_stale = true;
    variable.learned_by.clear();
    if (variable.model_index < 0) continue;
    // Not the moving average, nor a z that lags.
    const tf::Tensor& replica = variable.replicas[0].value();
    VariableStorage central;
    TF_RETURN_IF_ERROR(OpenCentral(variable, &central));
    tf::mutex_lock lock(*central.mu());
    if (!model_->keeps_z()) {  // all replicas are the same
      TF_ASSIGN_OR_RETURN(const tf::Tensor value,
                          variable.replicas[0].HostValue(MemoryOf(variable, 0)));
      TF_RETURN_IF_ERROR(central.Assign(value, {central_device_->GetAllocator({})}));
      continue;
    }
    void* data = nullptr;
    TF_RETURN_IF_ERROR(central.Overwrite(replica.dtype(), replica.shape(),
                                         central_device_->GetAllocator({}), &data));
    TF_RETURN_IF_ERROR(model_->lags()
                           ? CopyMeanTo(variable, data)
                           : CopyModelTo(variable, model_->as_it_is(), data));
  }
  return absl::OkStatus();
}

absl::Status VariableTable::CopyModelTo(const Variable& variable,
                                        CentralModel::Which which, void* values) {
  TF_RETURN_IF_ERROR(Collect(variable));
  model_->CopyTo(variable.model_index, which, values);
  return absl::OkStatus();
}

absl::Status VariableTable::CopyMeanTo(const Variable& variable, void* values) {
  const Aggregate mean = MeanOf(variable.replicas[0].value().dtype());
  TF_ASSIGN_OR_RETURN(const std::vector<tf::Tensor> all, HostValues(variable));
  std::vector<tf::Tensor> present;
  for (int j : synchroniser_->participants(variable.model_index))
    present.push_back(all[j]);
  mean(present, values);
  return absl::OkStatus();
}

absl::Status VariableTable::PublishOne(Variable* variable) {
  VariableStorage central;
  TF_RETURN_IF_ERROR(VariableStorage::Open(variable->node, variable->container,
                                           central_device_, /*create=*/true, &central));
  variable->central_stale = variable->released = false;
  variable->stale_for = 0;
  if (InPlace(*variable) || !variable->replicas[0].initialised()) {
    return absl::OkStatus();
  }
  const tf::Tensor& first = variable->replicas[0].value();  // perhaps not on the host
  tf::Allocator* const allocator = central_device_->GetAllocator({});
  tf::mutex_lock lock(*central.mu());
  const Aggregate aggregate = variable->summed       ? SumOf(first.dtype())
                              : variable->first_only ? nullptr
                                                     : MeanOf(first.dtype());
  const bool has_model = variable->model_index >= 0;
  const bool averages = synchroniser_->traits().averages != Traits::Averages::kNothing;
  // All replicas are the same: learner 0's stands for the trained variables.
  if (!has_model &&
      (variable->trained || variable->shared || !averages || aggregate == nullptr)) {
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
  TF_ASSIGN_OR_RETURN(std::vector<tf::Tensor> values, HostValues(*variable));
  if (!variable->summed && !variable->learned_by.empty()) {
    std::vector<tf::Tensor> learned;
    for (int j : variable->learned_by) learned.push_back(values[j]);
    values = std::move(learned);
  }
  aggregate(values, data);
  return absl::OkStatus();
}

void VariableTable::MarkAssigned(const std::string& name) {
  const int id = Find(name);
  if (id < 0) return;
  variables_[id].replicas_stale = true;
  variables_[id].central_stale = variables_[id].released = false;
  variables_[id].learned_by.clear();
}

absl::Status VariableTable::CopyReplicas(const std::vector<int>& ids, int from,
                                         int to) {
  for (int id : ids) {
    Variable& variable = variables_[id];
    if (variable.generator || variable.summed || variable.shared) continue;
    if (!variable.replicas[from].initialised()) continue;
    TF_ASSIGN_OR_RETURN(const tf::Tensor value,
                        variable.replicas[from].HostValue(MemoryOf(variable, from)));
    const tf::mutex_lock lock(*variable.replicas[to].mu());  // perhaps an eager one's
    TF_RETURN_IF_ERROR(variable.replicas[to].Assign(value, MemoryOf(variable, to)));
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
