// Optimisers' updates with the correction towards the central model in the same pass
// over memory:
//
//   w ← (w + u(w, g, slots)) − α (w − z)          w on the right before the update
//
// u is computed by the very operations of TensorFlow's kernels, in their order and in
// T, so that without a correction the result has TensorFlow's bits; the correction is
// made in the accumulation type. All arrays hold `n` elements and do not overlap. Pure
// functions.
#ifndef TENSORBOW_CC_OPTIMISER_UPDATE_RULES_H_
#define TENSORBOW_CC_OPTIMISER_UPDATE_RULES_H_

#include <cstdint>

#include "cc/support/element.h"

namespace tensorbow {

// Where to correct towards; `z` null for no correction.
template <typename T>
struct Pull {
  const Accumulator<T>* z = nullptr;
  Accumulator<T> alpha = 0;
};

// w ← g, w ← w + g, w ← w − g: what programs that write their own optimiser use
enum class Assignment { kReplace, kAdd, kSubtract };
template <typename T>
struct Assign {
  Assignment assignment;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w) const;
};

// w ← w − lr·g
template <typename T>
struct GradientDescent {
  T learning_rate;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w) const;
};

// a ← a·m + g ;  w ← w − a·lr, or with Nesterov's momentum w ← w − (g·lr + a·m·lr)
template <typename T>
struct Momentum {
  T learning_rate;
  T momentum;
  bool nesterov;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* a) const;
};

// a ← a·m − g·lr ;  w ← w + a, or with Nesterov's momentum w ← w + (a·m − g·lr)
template <typename T>
struct KerasMomentum {
  T learning_rate;
  T momentum;
  bool nesterov;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* a) const;
};

// m ← m + (g − m)(1 − β1) ;  v ← v + (g² − v)(1 − β2) ;  w ← w − m·rate / (√v + ε), or
// with Nesterov's momentum w ← w − (g(1 − β1) + β1·m)·rate / (√v + ε)
template <typename T>
struct Adam {
  T rate;  // lr·√(1 − β2^t) / (1 − β1^t)
  T beta1;
  T beta2;
  T epsilon;
  bool nesterov;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* m, T* v) const;
};

// s ← s + (g² − s)(1 − ρ) ;  a ← a·m + g·lr / √(s + ε) ;  w ← w − a
template <typename T>
struct RmsProp {
  T learning_rate;
  T rho;
  T momentum;
  T epsilon;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* s, T* a) const;
};

// a ← a + g² ;  w ← w − g·lr / √a, or with an ε w ← w − g·lr / (√a + ε)
template <typename T>
struct Adagrad {
  T learning_rate;
  T epsilon;
  bool has_epsilon;
  bool update_slots;
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* a) const;
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_OPTIMISER_UPDATE_RULES_H_
