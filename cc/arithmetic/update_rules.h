// An optimiser's update of an array with the correction towards the central model in
// the same pass over memory:
//
//   w ← (w + u(w, g, slots)) − α (w − z)          w on the right before the update
//
// w + u is the result of a step of update_steps.h, in T; the correction is made in the
// accumulation type. Without a correction the result has TensorFlow's bits. All arrays
// hold `n` elements and do not overlap. Pure functions.
#ifndef TENSORBOW_CC_ARITHMETIC_UPDATE_RULES_H_
#define TENSORBOW_CC_ARITHMETIC_UPDATE_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "cc/arithmetic/update_steps.h"
#include "cc/support/element.h"

namespace tensorbow {

// The target of the correction; `z` null for no correction.
template <typename T>
struct Pull {
  const Accumulator<T>* z = nullptr;
  Accumulator<T> alpha = 0;
};

// A rule, initialised as its step: {scalars…, flags…}; T is float, double, Half or
// Bfloat16.
template <template <typename> class Step, typename T, size_t kNumSlots>
struct Rule : Step<T> {
  // An array for each slot.
  template <typename... Slots>
  void operator()(int64_t n, const T* g, Pull<T> pull, T* w, Slots*... slots) const {
    static_assert(sizeof...(slots) == kNumSlots);
    Update(n, g, pull, w, {slots...});
  }

 private:
  void Update(int64_t n, const T* g, Pull<T> pull, T* w,
              const std::array<T*, kNumSlots>& slots) const;
};

// Momentum<T> updates by MomentumStep<T>, and so on.
#define TENSORBOW_RULE(Name, num_slots) \
  template <typename T>                 \
  using Name = Rule<Name##Step, T, num_slots>;
TENSORBOW_RULE(Assign, 0)
TENSORBOW_UPDATE_STEPS(TENSORBOW_RULE)
#undef TENSORBOW_RULE

}  // namespace tensorbow

#endif  // TENSORBOW_CC_ARITHMETIC_UPDATE_RULES_H_
