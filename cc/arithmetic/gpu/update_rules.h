// The update rules of GPUs. A rule's scalars lie in device memory, as in TensorFlow's
// GPU kernels. So nothing waits for the host, and a captured CUDA graph reads them
// again at every launch. Each rule has
//
//   Load()      on the device: reads the scalars, returns the step of update_steps.h
#ifndef TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_RULES_H_
#define TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_RULES_H_

#include "cc/arithmetic/update_steps.h"
#include "cc/support/host_device.h"

namespace tensorbow {
namespace gpu {

template <typename T, Assignment assignment>
struct Assign {
  TENSORBOW_HOST_DEVICE AssignStep<T> Load() const { return {assignment}; }
};

template <typename T>
struct GradientDescent {
  const T* learning_rate;

  TENSORBOW_HOST_DEVICE GradientDescentStep<T> Load() const { return {*learning_rate}; }
};

template <typename T>
struct Momentum {
  const T* learning_rate;
  const T* momentum;
  bool nesterov;

  TENSORBOW_HOST_DEVICE MomentumStep<T> Load() const {
    return {*learning_rate, *momentum, nesterov};
  }
};

template <typename T>
struct KerasMomentum {
  const T* learning_rate;
  const T* momentum;
  bool nesterov;

  TENSORBOW_HOST_DEVICE KerasMomentumStep<T> Load() const {
    return {*learning_rate, *momentum, nesterov};
  }
};

template <typename T>
struct Adam {
  const T* beta1_power;
  const T* beta2_power;
  const T* learning_rate;
  const T* beta1;
  const T* beta2;
  const T* epsilon;
  bool nesterov;

  TENSORBOW_HOST_DEVICE AdamStep<T> Load() const {
    return {AdamStep<T>::RateOf(*learning_rate, *beta1_power, *beta2_power), *beta1,
            *beta2, *epsilon, nesterov};
  }
};

template <typename T>
struct RmsProp {
  const T* learning_rate;
  const T* rho;
  const T* momentum;
  const T* epsilon;

  TENSORBOW_HOST_DEVICE RmsPropStep<T> Load() const {
    return {*learning_rate, *rho, *momentum, *epsilon};
  }
};

template <typename T>
struct Adagrad {
  const T* learning_rate;
  const T* epsilon;  // null if there is none
  bool update_slots;

  TENSORBOW_HOST_DEVICE AdagradStep<T> Load() const {
    return {*learning_rate, epsilon == nullptr ? T(0) : *epsilon, epsilon != nullptr,
            update_slots};
  }
};

}  // namespace gpu
}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_GPU_UPDATE_RULES_H_
