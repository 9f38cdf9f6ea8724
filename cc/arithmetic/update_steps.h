// The formula of each optimiser for one element, for host and device. It stands nowhere
// else. Loops over arrays are in update_rules.h, for the CPU, and in gpu/.
//
//   T step(T w, T g, T& slots…)     returns w after the update, and changes the slots
//
// The operations are those of TensorFlow's kernels, in their order and in T, so that
// the result has the bits of TensorFlow's; a 16-bit T is rounded after each one.
//
// A step with kKeepsWithoutGradient leaves w and its slots unchanged if g = 0.
//
// A step that has flags lists them in Flags(), so that each case has a loop without a
// branch.
//
// In the formulas γ is the learning rate, μ the momentum and g the gradient; ← takes
// the values on its right as they are at that point. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_UPDATE_STEPS_H_
#define TENSORBOW_CC_ARITHMETIC_UPDATE_STEPS_H_

#include <cmath>
#include <tuple>

#include "cc/support/element.h"
#include "cc/support/host_device.h"

namespace tensorbow {

// The list of all optimisers with their numbers of slots, from which loops are
// compiled. `Name` stands for the struct NameStep. (Assignments are not in it.)
#define TENSORBOW_UPDATE_STEPS(STEP) \
  STEP(GradientDescent, 0)           \
  STEP(Momentum, 1)                  \
  STEP(KerasMomentum, 1)             \
  STEP(Adam, 2)                      \
  STEP(RmsProp, 2)                   \
  STEP(Adagrad, 1)

// √x
template <typename T>
TENSORBOW_HOST_DEVICE T SquareRoot(T x) {
  using std::sqrt;  // besides those of 16-bit numbers
  return sqrt(x);
}

// 1 / √x, rounded once for a 16-bit number.
template <typename T>
TENSORBOW_HOST_DEVICE T ReciprocalSquareRoot(T x) {
  using A = Accumulator<T>;
  return static_cast<T>(A(1) / std::sqrt(static_cast<A>(x)));
}

// The assignments of programs that write their own optimiser:
//
//   w ← g        w ← w + g        w ← w − g
enum class Assignment { kReplace, kAdd, kSubtract };

template <typename T>
struct AssignStep {
  Assignment assignment;

  TENSORBOW_HOST_DEVICE T operator()(T w, T g) const {
    if (assignment == Assignment::kReplace) return g;
    return assignment == Assignment::kAdd ? w + g : w - g;
  }
};

//   w ← w − γ·g
template <typename T>
struct GradientDescentStep {
  T learning_rate;
  static constexpr bool kKeepsWithoutGradient = true;

  TENSORBOW_HOST_DEVICE T operator()(T w, T g) const { return w - g * learning_rate; }
};

//   a ← μ·a + g
//   w ← w − γ·a                  or, with Nesterov's momentum, w ← w − (γ·g + γ·μ·a)
template <typename T>
struct MomentumStep {
  T learning_rate;
  T momentum;
  bool nesterov;
  static constexpr auto Flags() { return std::tuple(&MomentumStep::nesterov); }

  TENSORBOW_HOST_DEVICE T operator()(T w, T g, T& a) const {
    a = a * momentum + g;
    return nesterov ? w - (g * learning_rate + a * momentum * learning_rate)
                    : w - a * learning_rate;
  }
};

//   a ← μ·a − γ·g
//   w ← w + a                    or, with Nesterov's momentum, w ← w + (μ·a − γ·g)
template <typename T>
struct KerasMomentumStep {
  T learning_rate;
  T momentum;
  bool nesterov;
  static constexpr auto Flags() { return std::tuple(&KerasMomentumStep::nesterov); }

  TENSORBOW_HOST_DEVICE T operator()(T w, T g, T& a) const {
    a = a * momentum - g * learning_rate;
    return nesterov ? w + (a * momentum - g * learning_rate) : w + a;
  }
};

//   m ← m + (1 − β1)·(g − m)
//   v ← v + (1 − β2)·(g² − v)
//   w ← w − γ_t·m / (√v + ε)     or, with Nesterov's momentum (Nadam),
//   w ← w − γ_t·((1 − β1)·g + β1·m) / (√v + ε)
template <typename T>
struct AdamStep {
  T rate;  // γ_t
  T beta1;
  T beta2;
  T epsilon;
  bool nesterov;
  static constexpr auto Flags() { return std::tuple(&AdamStep::nesterov); }

  // γ_t = γ·√(1 − β2^t) / (1 − β1^t), in step t
  TENSORBOW_HOST_DEVICE static T RateOf(T learning_rate, T beta1_power, T beta2_power) {
    return learning_rate * SquareRoot(T(1) - beta2_power) / (T(1) - beta1_power);
  }

  TENSORBOW_HOST_DEVICE T operator()(T w, T g, T& m, T& v) const {
    m += (g - m) * (T(1) - beta1);
    v += (g * g - v) * (T(1) - beta2);
    const T direction = nesterov ? g * (T(1) - beta1) + beta1 * m : m;
    return w - (direction * rate) / (SquareRoot(v) + epsilon);
  }
};

// Adam in which only some elements have a gradient (see sparse_adam.h):
//
//   m ← β1·m         v ← β2·v            then the gradient's additions to them, then
//   w ← w − γ_t·m / (√v + ε)
template <typename T>
struct SparseAdamStep {
  T rate;  // γ_t
  T beta1;
  T beta2;
  T epsilon;

  TENSORBOW_HOST_DEVICE void Decay(T& m, T& v) const {
    m = m * beta1;
    v = v * beta2;
  }
  TENSORBOW_HOST_DEVICE T operator()(T w, T m, T v) const {
    return w - (m * rate) / (SquareRoot(v) + epsilon);
  }
};

//   s ← s + (1 − ρ)·(g² − s)
//   a ← μ·a + γ·g / √(s + ε)
//   w ← w − a
template <typename T>
struct RmsPropStep {
  T learning_rate;
  T rho;
  T momentum;
  T epsilon;

  TENSORBOW_HOST_DEVICE T operator()(T w, T g, T& s, T& a) const {
    s += (g * g - s) * (T(1) - rho);
    a = a * momentum + (g * learning_rate) / SquareRoot(s + epsilon);
    return w - a;
  }
};

//   a ← a + g²                   if slots are updated
//   w ← w − γ·g / √a             or, with an ε, w ← w − γ·g / (√a + ε)
template <typename T>
struct AdagradStep {
  T learning_rate;
  T epsilon;
  bool has_epsilon;
  bool update_slots;
  static constexpr bool kKeepsWithoutGradient = true;
  static constexpr auto Flags() {
    return std::tuple(&AdagradStep::has_epsilon, &AdagradStep::update_slots);
  }

  TENSORBOW_HOST_DEVICE T operator()(T w, T g, T& a) const {
    if (update_slots) a += g * g;
    return has_epsilon ? w - g * learning_rate / (SquareRoot(a) + epsilon)
                       : w - g * learning_rate * ReciprocalSquareRoot(a);
  }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_UPDATE_STEPS_H_
