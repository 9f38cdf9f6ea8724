// Variables as inputs of update kernels, given as references or as resources, and their
// locks.
#ifndef TENSORBOW_TF_OPS_KERNELS_VARIABLE_INPUT_H_
#define TENSORBOW_TF_OPS_KERNELS_VARIABLE_INPUT_H_

#include <algorithm>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tensorbow {

// A variable given to a kernel as a reference or as a resource.
class VariableInput {
 public:
  static absl::Status Open(tensorflow::OpKernelContext* context, int index,
                           VariableInput* input) {
    input->context_ = context;
    input->index_ = index;
    if (context->input_dtype(index) == tensorflow::DT_RESOURCE) {
      TF_RETURN_IF_ERROR(tensorflow::LookupResource(
          context, tensorflow::HandleFromInput(context, index), &input->resource_));
      input->mu_ = input->resource_->mu();
    } else {
      input->mu_ = context->input_ref_mutex(index);
    }
    return absl::OkStatus();
  }

  bool is_resource() const { return resource_ != nullptr; }
  tensorflow::mutex* mu() const { return mu_; }

  // All below: REQUIRES that mu() is held (for references: may be held, `locked`).

  // Returns whether the buffer has other references, so that it must not be changed. (A
  // reader without a reference holds the mutex.)
  bool shared() const { return is_resource() && !resource_->tensor()->RefCountIsOne(); }
  // Returns the variable's present tensor. REQUIRES: nobody replaces the tensor
  // meanwhile; mu() need not be held.
  tensorflow::Tensor Present() const {
    return is_resource() ? *resource_->tensor()
                         : context_->mutable_input(index_, /*lock_held=*/true);
  }
  // Gets the variable's tensor, in a buffer of its own; `copy(from, to)` copies
  // elements of one tensor to another and returns a status.
  template <typename Copy>
  absl::Status Tensor(bool locked, Copy copy, tensorflow::Tensor* tensor) const {
    if (!is_resource()) {
      *tensor = context_->mutable_input(index_, locked);
      return absl::OkStatus();
    }
    if (shared() && resource_->tensor()->IsInitialized()) {
      const tensorflow::Tensor& old = *resource_->tensor();
      tensorflow::Tensor own;
      TF_RETURN_IF_ERROR(context_->allocate_temp(old.dtype(), old.shape(), &own));
      TF_RETURN_IF_ERROR(copy(old, &own));
      *resource_->tensor() = own;
    }
    *tensor = *resource_->tensor();
    return absl::OkStatus();
  }

 private:
  tensorflow::OpKernelContext* context_ = nullptr;
  int index_ = 0;
  tensorflow::core::RefCountPtr<tensorflow::Var> resource_;
  tensorflow::mutex* mu_ = nullptr;
};

// Copies elements on the CPU, for VariableInput::Tensor().
inline absl::Status CopyElements(const tensorflow::Tensor& from,
                                 tensorflow::Tensor* to) {
  std::copy_n(static_cast<const char*>(from.data()), from.TotalBytes(),
              static_cast<char*>(to->data()));
  return absl::OkStatus();
}

// Holds the mutexes of several variables, taken in the order of their addresses. They
// are only known when the kernel runs, so no annotation can name them.
class VariableLocks {
 public:
  void Add(tensorflow::mutex* mu) {
    if (std::find(mus_.begin(), mus_.end(), mu) == mus_.end()) mus_.push_back(mu);
  }
  void Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::sort(mus_.begin(), mus_.end());
    for (tensorflow::mutex* mu : mus_) mu->lock();
    locked_ = true;
  }
  ~VariableLocks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (tensorflow::mutex* mu : mus_) {
      if (locked_) mu->unlock();
    }
  }

 private:
  std::vector<tensorflow::mutex*> mus_;
  bool locked_ = false;
};

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_VARIABLE_INPUT_H_
