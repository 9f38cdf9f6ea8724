// The positions of the inputs of the fused update ops (tf_ops/ops/fused_update_ops.cc):
//
//   kSlots     the variable inputs 1 … kSlots are slots
//   kOperand   the input that has one value per element (the gradient)
//   kScalars   the other inputs
//
// They are the same for the kernels of all devices.
#ifndef TENSORBOW_TF_OPS_KERNELS_UPDATE_INPUTS_H_
#define TENSORBOW_TF_OPS_KERNELS_UPDATE_INPUTS_H_

#include <array>

#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

struct ScalarInput {
  int index;
  const char* name;
};

struct GradientDescentInputs {
  static constexpr int kSlots = 0, kOperand = 2;
  static constexpr std::array<ScalarInput, 1> kScalars{{{1, "alpha"}}};
};

struct MomentumInputs {
  static constexpr int kSlots = 1, kOperand = 3;
  static constexpr std::array<ScalarInput, 2> kScalars{{{2, "lr"}, {4, "momentum"}}};
};

struct AdamInputs {
  static constexpr int kSlots = 2, kOperand = 9;
  static constexpr std::array<ScalarInput, 6> kScalars{{{3, "beta1_power"},
                                                        {4, "beta2_power"},
                                                        {5, "lr"},
                                                        {6, "beta1"},
                                                        {7, "beta2"},
                                                        {8, "epsilon"}}};
};

struct RmsPropInputs {
  static constexpr int kSlots = 2, kOperand = 7;
  static constexpr std::array<ScalarInput, 4> kScalars{
      {{3, "lr"}, {4, "rho"}, {5, "momentum"}, {6, "epsilon"}}};
};

struct AdagradInputs {
  static constexpr int kSlots = 1, kOperand = 3;
  static constexpr std::array<ScalarInput, 1> kScalars{{{2, "lr"}}};
};

struct AdagradV2Inputs {
  static constexpr int kSlots = 1, kOperand = 4;
  static constexpr std::array<ScalarInput, 2> kScalars{{{2, "lr"}, {3, "epsilon"}}};
};

struct AssignInputs {
  static constexpr int kSlots = 0, kOperand = 1;
  static constexpr std::array<ScalarInput, 0> kScalars{};
};

// Returns an attribute of the op; on an error, sets the construction's status.
inline bool BoolAttribute(tensorflow::OpKernelConstruction* construction,
                          const char* name) {
  bool value = false;
  const absl::Status status = construction->GetAttr(name, &value);
  if (!status.ok()) construction->SetStatus(status);
  return value;
}

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_UPDATE_INPUTS_H_
