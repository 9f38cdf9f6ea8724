// A variable's tensor in one container, for reference variables (VariableV2) and
// resource variables (VarHandleOp).
//
// The value may be in an accelerator's memory; then its device copies it. Does not own
// the variable. Access is exclusive under mu(); the learner that owns a replica needs
// no lock.
#ifndef TENSORBOW_CC_LEARNER_VARIABLE_STORAGE_H_
#define TENSORBOW_CC_LEARNER_VARIABLE_STORAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cc/device/accelerator.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace tensorbow {

// The memory in which a variable's value is kept.
struct Memory {
  tensorflow::Allocator* allocator = nullptr;
  AcceleratorDevice* accelerator = nullptr;  // null: host memory
};

class VariableStorage {
 public:
  // Finds the variable that `node` declares, in `container` ("" is the default one). If
  // it does not exist it is created uninitialised (`create`), or the storage is not
  // initialised() and must not be used otherwise.
  static absl::Status Open(const tensorflow::NodeDef& node,
                           const std::string& container, tensorflow::Device* device,
                           bool create, VariableStorage* storage);

  bool initialised() const;
  const tensorflow::Tensor& value() const { return *tensor_; }
  tensorflow::mutex* mu() const { return mu_; }

  // Returns the value in host memory: the variable's own tensor if that is there, else
  // a copy.
  absl::StatusOr<tensorflow::Tensor> HostValue(const Memory& memory) const;

  // Copies in `value`, which is in host memory; reuses the present buffer if nobody
  // else refers to it.
  absl::Status Assign(const tensorflow::Tensor& value, const Memory& memory);
  // Frees the value's memory; the variable is uninitialised afterwards.
  void Clear();
  // Makes `value` the variable's tensor, without a copy. REQUIRES: initialised().
  void Replace(const tensorflow::Tensor& value) { *tensor_ = value; }
  // Gives the variable a buffer for overwriting in place: its own, or a new one of the
  // given type and shape with undefined contents. The variable is initialised
  // afterwards.
  absl::Status Overwrite(tensorflow::DataType dtype,
                         const tensorflow::TensorShape& shape,
                         tensorflow::Allocator* allocator, void** data);
  // Makes sure that nobody else refers to the variable's buffer (copying it if need be)
  // and returns it for updating in place.
  absl::StatusOr<void*> Unshared(const Memory& memory);

 private:
  tensorflow::Tensor* tensor_ = nullptr;
  tensorflow::mutex* mu_ = nullptr;
  // Set for resource variables only.
  tensorflow::core::RefCountPtr<tensorflow::Var> resource_;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_LEARNER_VARIABLE_STORAGE_H_
