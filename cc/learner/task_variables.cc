#include "cc/learner/task_variables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/graph/op_facts.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

constexpr char kResourceVariable[] = "VarHandleOp";

// Returns the container of the learner's copy; "" is the default container.
std::string ContainerOf(const tf::NodeDef& node) {
  const auto container = node.attr().find("container");
  return container == node.attr().end() ? "" : container->second.s();
}

const void* AddressOf(const VariableStorage& storage) {
  return storage.initialised() ? storage.value().data() : nullptr;
}

}  // namespace

TaskVariables::TaskVariables(const std::vector<TaskPart>& parts,
                             AcceleratorDevice* accelerator)
    : accelerator_(accelerator) {
  for (const TaskPart& part : parts) {
    for (const tf::Node* node : part.graph->op_nodes()) {
      if (FactsOf(node->type_string()).creates_variable &&
          node->assigned_device_name() == accelerator->device()->name()) {
        nodes_.push_back(node->def());
      }
    }
  }
}

absl::Status TaskVariables::Open() {
  storages_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // A resource can be deleted and made again under its name; the tensor of a
    // reference variable lives as long as its container.
    if (nodes_[i].op() != kResourceVariable && storages_[i].initialised()) continue;
    TF_RETURN_IF_ERROR(VariableStorage::Open(nodes_[i], ContainerOf(nodes_[i]),
                                             accelerator_->device(), /*create=*/false,
                                             &storages_[i]));
  }
  return absl::OkStatus();
}

absl::Status TaskVariables::Locate(Addresses* addresses) {
  TF_RETURN_IF_ERROR(Open());
  addresses->clear();
  for (const VariableStorage& storage : storages_) {
    addresses->push_back(AddressOf(storage));
  }
  return absl::OkStatus();
}

std::string TaskVariables::Moved(const Addresses& before,
                                 const Addresses& after) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (before[i] != after[i]) return nodes_[i].name();
  }
  return "";
}

void TaskVariables::AddMoved(const Addresses& before, const Addresses& after,
                             std::vector<bool>* moving) const {
  moving->resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (before[i] != after[i]) (*moving)[i] = true;
  }
}

absl::Status TaskVariables::Hold(const std::vector<bool>& moving,
                                 std::vector<tf::Tensor>* held) {
  TF_RETURN_IF_ERROR(Open());
  held->assign(nodes_.size(), tf::Tensor());
  for (size_t i = 0; i < moving.size(); ++i) {
    if (moving[i] && storages_[i].initialised()) (*held)[i] = storages_[i].value();
  }
  return absl::OkStatus();
}

absl::Status TaskVariables::MoveBack(const std::vector<tf::Tensor>& held) {
  TF_RETURN_IF_ERROR(Open());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (held[i].TotalBytes() == 0 || AddressOf(storages_[i]) == held[i].data()) {
      continue;
    }
    const tf::Tensor& value = storages_[i].value();
    if (value.dtype() != held[i].dtype() || value.shape() != held[i].shape()) {
      return absl::UnimplementedError(absl::StrCat(
          "the task changes the shape of variable '", nodes_[i].name(), "'"));
    }
    tf::Tensor buffer = held[i];
    TF_RETURN_IF_ERROR(accelerator_->Copy(value, &buffer));
    storages_[i].Replace(buffer);
  }
  return absl::OkStatus();
}

absl::Status TaskVariables::Save(std::vector<tf::Tensor>* values) {
  TF_RETURN_IF_ERROR(Open());
  values->clear();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!storages_[i].initialised()) {
      values->emplace_back();
      continue;
    }
    const tf::Tensor& value = storages_[i].value();
    if (!tf::DataTypeCanUseMemcpy(value.dtype())) {
      return absl::UnimplementedError(
          absl::StrCat("variable '", nodes_[i].name(), "' is of type ",
                       tf::DataTypeString(value.dtype()), ", which has no fixed size"));
    }
    tf::Tensor copy(accelerator_->device()->GetAllocator({}), value.dtype(),
                    value.shape());
    if (!copy.IsInitialized()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there is no memory for a copy of variable '", nodes_[i].name(),
                       "' of shape ", value.shape().DebugString()));
    }
    TF_RETURN_IF_ERROR(accelerator_->Copy(value, &copy));
    values->push_back(std::move(copy));
  }
  return absl::OkStatus();
}

absl::Status TaskVariables::Restore(const Addresses& addresses,
                                    const std::vector<tf::Tensor>& values) {
  TF_RETURN_IF_ERROR(Open());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (addresses[i] == nullptr || AddressOf(storages_[i]) == addresses[i]) continue;
    storages_[i].Replace(values[i]);
  }
  return absl::OkStatus();
}

}  // namespace tensorbow
