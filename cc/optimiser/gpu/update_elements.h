// What the update rules of update_rules.h do to one element, for GPUs: the same
// operations in the same order, so that the bits are the same. Tests hold the one
// against the other on the CPU.
//
// A rule's scalars lie in device memory, as TensorFlow's GPU kernels have them: nothing
// waits for the host, and a captured CUDA graph reads them anew at every launch. Each
// rule has
//
//   Step<T> Load()                          on the device: reads the scalars
//   T Step::operator()(x, g, slots…)        w after the update, and the slots'
#ifndef TENSORBOW_CC_OPTIMISER_GPU_UPDATE_ELEMENTS_H_
#define TENSORBOW_CC_OPTIMISER_GPU_UPDATE_ELEMENTS_H_

#include <cmath>

#include "cc/optimiser/update_rules.h"
#include "cc/support/host_device.h"

namespace tensorbow {
namespace gpu {

template <typename T, Assignment assignment>
struct Assign {
  struct Step {
    TENSORBOW_HOST_DEVICE T operator()(T x, T g) const {
      if constexpr (assignment == Assignment::kReplace) return g;
      if constexpr (assignment == Assignment::kAdd) return x + g;
      return x - g;
    }
  };
  TENSORBOW_HOST_DEVICE Step Load() const { return {}; }
};

template <typename T>
struct GradientDescent {
  const T* learning_rate;

  struct Step {
    T lr;
    TENSORBOW_HOST_DEVICE T operator()(T x, T g) const { return x - g * lr; }
  };
  TENSORBOW_HOST_DEVICE Step Load() const { return {*learning_rate}; }
};

template <typename T>
struct Momentum {
  const T* learning_rate;
  const T* momentum;
  bool nesterov;

  struct Step {
    T lr, m;
    bool nesterov;
    TENSORBOW_HOST_DEVICE T operator()(T x, T g, T& a) const {
      a = a * m + g;
      return nesterov ? x - (g * lr + a * m * lr) : x - a * lr;
    }
  };
  TENSORBOW_HOST_DEVICE Step Load() const {
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

  struct Step {
    T rate, beta1, one_less_beta1, one_less_beta2, epsilon;
    bool nesterov;
    TENSORBOW_HOST_DEVICE T operator()(T x, T g, T& m, T& v) const {
      m += (g - m) * one_less_beta1;
      v += (g * g - v) * one_less_beta2;
      const T direction = nesterov ? g * one_less_beta1 + beta1 * m : m;
      return x - (direction * rate) / (std::sqrt(v) + epsilon);
    }
  };
  TENSORBOW_HOST_DEVICE Step Load() const {
    const T rate =
        *learning_rate * std::sqrt(T(1) - *beta2_power) / (T(1) - *beta1_power);
    return {rate, *beta1, T(1) - *beta1, T(1) - *beta2, *epsilon, nesterov};
  }
};

template <typename T>
struct RmsProp {
  const T* learning_rate;
  const T* rho;
  const T* momentum;
  const T* epsilon;

  struct Step {
    T lr, one_less_rho, momentum, epsilon;
    TENSORBOW_HOST_DEVICE T operator()(T x, T g, T& s, T& a) const {
      s += (g * g - s) * one_less_rho;
      a = a * momentum + (g * lr) / std::sqrt(s + epsilon);
      return x - a;
    }
  };
  TENSORBOW_HOST_DEVICE Step Load() const {
    return {*learning_rate, T(1) - *rho, *momentum, *epsilon};
  }
};

template <typename T>
struct Adagrad {
  const T* learning_rate;
  const T* epsilon;  // null if there is none
  bool update_slots;

  struct Step {
    T lr, epsilon;
    bool has_epsilon, update_slots;
    TENSORBOW_HOST_DEVICE T operator()(T x, T g, T& a) const {
      if (update_slots) a += g * g;
      return has_epsilon ? x - g * lr / (std::sqrt(a) + epsilon)
                         : x - g * lr * (T(1) / std::sqrt(a));
    }
  };
  TENSORBOW_HOST_DEVICE Step Load() const {
    return {*learning_rate, epsilon == nullptr ? T(0) : *epsilon, epsilon != nullptr,
            update_slots};
  }
};

// `after` the update of `before`, less the correction towards z.
template <typename T>
TENSORBOW_HOST_DEVICE T Pulled(T after, T before, T z, T alpha) {
  return after - alpha * (before - z);
}

}  // namespace gpu
}  // namespace tensorbow

#endif  // TENSORBOW_CC_OPTIMISER_GPU_UPDATE_ELEMENTS_H_
