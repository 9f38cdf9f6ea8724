#include "cc/learner/variable_storage.h"

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/public/version.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

// Finds the tensor of a reference variable. It is private to its kernel's source file,
// so this makes a kernel for the node.
absl::Status FindReference(const tf::NodeDef& node, const std::string& container,
                           tf::Device* device, tf::TensorValue* reference) {
  tf::NodeDef in_container = node;
  (*in_container.mutable_attr())["container"].set_s(container);
  std::shared_ptr<const tf::NodeProperties> properties;
  TF_RETURN_IF_ERROR(tf::NodeProperties::CreateFromNodeDef(
      in_container, tf::OpRegistry::Global(), &properties));
  tf::OpKernel* made = nullptr;
  TF_RETURN_IF_ERROR(tf::CreateOpKernel(tf::DeviceType(device->device_type()), device,
                                        device->GetAllocator({}),
                                        /*flib=*/nullptr, device->resource_manager(),
                                        properties, TF_GRAPH_DEF_VERSION, &made));
  const std::unique_ptr<tf::OpKernel> kernel(made);
  tf::OpKernelContext::Params params;
  params.device = device;
  params.op_kernel = kernel.get();
  params.resource_manager = device->resource_manager();
  params.frame_iter = tf::FrameAndIter(0, 0);
  tf::AllocatorAttributes output_attributes;
  params.output_attr_array = &output_attributes;
  tf::OpKernelContext context(&params, /*num_outputs=*/1);
  kernel->Compute(&context);
  TF_RETURN_IF_ERROR(context.status());
  *reference = context.release_output(0);
  return absl::OkStatus();
}

absl::Status OutOfMemory(const tf::TensorShape& shape, tf::Allocator* allocator) {
  return absl::ResourceExhaustedError(
      absl::StrCat("No memory for a variable of shape ", shape.DebugString(),
                   " in allocator ", allocator->Name()));
}

}  // namespace

absl::Status VariableStorage::Open(const tf::NodeDef& node,
                                   const std::string& container, tf::Device* device,
                                   bool create, VariableStorage* storage) {
  tf::ResourceMgr* const resources = device->resource_manager();
  if (node.op() != "VarHandleOp") {
    tf::TensorValue reference;
    TF_RETURN_IF_ERROR(FindReference(node, container, device, &reference));
    storage->tensor_ = reference.tensor;
    storage->mu_ = reference.mutex_if_ref;
    return absl::OkStatus();
  }
  std::string name;
  tf::DataType dtype;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "shared_name", &name));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "dtype", &dtype));
  const std::string& place =
      container.empty() ? resources->default_container() : container;
  tf::Var* variable = nullptr;
  if (create) {
    TF_RETURN_IF_ERROR(resources->LookupOrCreate<tf::Var>(place, name, &variable,
                                                          [dtype](tf::Var** made) {
                                                            *made = new tf::Var(dtype);
                                                            return absl::OkStatus();
                                                          }));
  } else {
    const absl::Status found = resources->Lookup<tf::Var>(place, name, &variable);
    if (absl::IsNotFound(found)) {
      *storage = VariableStorage();
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(found);
  }
  storage->resource_.reset(variable);
  storage->tensor_ = variable->tensor();
  storage->mu_ = variable->mu();
  return absl::OkStatus();
}

bool VariableStorage::initialised() const {
  if (tensor_ == nullptr || !tensor_->IsInitialized()) return false;
  return resource_ == nullptr || resource_->is_initialized;
}

absl::Status VariableStorage::Overwrite(tf::DataType dtype,
                                        const tf::TensorShape& shape,
                                        tf::Allocator* allocator, void** data) {
  if (!tensor_->IsInitialized() || tensor_->dtype() != dtype ||
      tensor_->shape() != shape || !tensor_->RefCountIsOne()) {
    tf::Tensor fresh(allocator, dtype, shape);
    if (!fresh.IsInitialized()) return OutOfMemory(shape, allocator);
    *tensor_ = fresh;
  }
  if (resource_ != nullptr) resource_->is_initialized = true;
  *data = tensor_->data();
  return absl::OkStatus();
}

void VariableStorage::Clear() {
  *tensor_ = tf::Tensor(tensor_->dtype());
  if (resource_ != nullptr) resource_->is_initialized = false;
}

absl::StatusOr<tf::Tensor> VariableStorage::HostValue(const Memory& memory) const {
  if (memory.accelerator == nullptr || tensor_->TotalBytes() == 0) return *tensor_;
  tf::Tensor host(tensor_->dtype(), tensor_->shape());
  TF_RETURN_IF_ERROR(memory.accelerator->CopyOut(*tensor_, &host));
  return host;
}

absl::Status VariableStorage::Assign(const tf::Tensor& value, const Memory& memory) {
  if (!tf::DataTypeCanUseMemcpy(value.dtype())) {
    *tensor_ = tf::tensor::DeepCopy(value);
    if (resource_ != nullptr) resource_->is_initialized = true;
    return absl::OkStatus();
  }
  void* data = nullptr;
  TF_RETURN_IF_ERROR(Overwrite(value.dtype(), value.shape(), memory.allocator, &data));
  if (value.TotalBytes() == 0) return absl::OkStatus();
  if (memory.accelerator != nullptr) return memory.accelerator->CopyIn(value, tensor_);
  std::memcpy(data, value.data(), value.TotalBytes());
  return absl::OkStatus();
}

absl::StatusOr<void*> VariableStorage::Unshared(const Memory& memory) {
  if (!tensor_->RefCountIsOne()) {
    tf::Tensor copy(memory.allocator, tensor_->dtype(), tensor_->shape());
    if (!copy.IsInitialized()) return OutOfMemory(tensor_->shape(), memory.allocator);
    if (memory.accelerator != nullptr) {
      TF_RETURN_IF_ERROR(memory.accelerator->Copy(*tensor_, &copy));
    } else {
      std::memcpy(copy.data(), tensor_->data(), tensor_->TotalBytes());
    }
    *tensor_ = copy;
  }
  return tensor_->data();
}

}  // namespace tensorbow
