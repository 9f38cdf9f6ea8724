// The errors of kernels that work on learners only.
#ifndef TENSORBOW_TF_OPS_KERNELS_LEARNER_ERRORS_H_
#define TENSORBOW_TF_OPS_KERNELS_LEARNER_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tensorbow {

inline absl::Status OnLearnersOnly(const tensorflow::OpKernel& kernel) {
  return absl::FailedPreconditionError(absl::StrCat(
      kernel.name(), " (", kernel.type_string(), ") works on a learner only"));
}

inline absl::Status OutsideLearningRun(const tensorflow::OpKernel& kernel) {
  return absl::FailedPreconditionError(
      absl::StrCat(kernel.name(), " is executed outside a learning run"));
}

inline absl::Status Discarded() {
  return absl::CancelledError(
      "The iteration is discarded because another learner's task failed");
}

}  // namespace tensorbow

#endif  // TENSORBOW_TF_OPS_KERNELS_LEARNER_ERRORS_H_
