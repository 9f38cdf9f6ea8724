#include "cc/arithmetic/update_rules.h"

#include <tuple>
#include <type_traits>
#include <utility>

#include "cc/arithmetic/correction.h"
#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

// Applies the step to all elements. Two loops, so that neither has a branch in it.
template <typename Step, typename T, typename... Slots>
TENSORBOW_INLINE void ForEach(Step step, int64_t n, const T* __restrict g, Pull<T> pull,
                              T* __restrict w, Slots* __restrict... slots) {
  if (pull.z == nullptr) {
    for (int64_t i = 0; i < n; ++i) w[i] = step(w[i], g[i], slots[i]...);
  } else {
    using A = Accumulator<T>;
    const A* __restrict z = pull.z;
    for (int64_t i = 0; i < n; ++i) {
      const T before = w[i];
      const A target = z[i];  // read before the step stores its slots
      const T updated = step(before, g[i], slots[i]...);
      w[i] = static_cast<T>(Corrected(static_cast<A>(updated), static_cast<A>(before),
                                      target, pull.alpha));
    }
  }
}

template <typename Step, typename = void>
constexpr size_t kNumFlags = 0;
template <typename Step>
constexpr size_t kNumFlags<Step, std::void_t<decltype(Step::Flags())>> =
    std::tuple_size_v<decltype(Step::Flags())>;

// Runs a loop for each case of the step's flags from `first` on, which are constants
// for the compiler inside the loop.
template <size_t first = 0, typename Step, typename... Arguments>
TENSORBOW_INLINE void ForEachByFlags(Step step, Arguments... arguments) {
  if constexpr (first == kNumFlags<Step>) {
    ForEach(step, arguments...);
  } else {
    constexpr bool Step::* flag = std::get<first>(Step::Flags());
    if (step.*flag) {
      step.*flag = true;
      ForEachByFlags<first + 1>(step, arguments...);
    } else {
      step.*flag = false;
      ForEachByFlags<first + 1>(step, arguments...);
    }
  }
}
template <size_t first = 0, typename T, typename... Arguments>
TENSORBOW_INLINE void ForEachByFlags(AssignStep<T> step, Arguments... arguments) {
  switch (step.assignment) {
    case Assignment::kReplace:
      return ForEach(AssignStep<T>{Assignment::kReplace}, arguments...);
    case Assignment::kAdd:
      return ForEach(AssignStep<T>{Assignment::kAdd}, arguments...);
    case Assignment::kSubtract:
      return ForEach(AssignStep<T>{Assignment::kSubtract}, arguments...);
  }
}

template <typename Step, typename T, size_t kNumSlots, size_t... slot>
TENSORBOW_INLINE void Run(const Step& step, int64_t n, const T* g, Pull<T> pull, T* w,
                          const std::array<T*, kNumSlots>& slots,
                          std::index_sequence<slot...>) {
  ForEachByFlags(step, n, g, pull, w, slots[slot]...);
}

}  // namespace

// A function for each step and type, since target_clones does not work on templates.
#define TENSORBOW_RULE_FOR(Name, num_slots, T)                              \
  TENSORBOW_VECTORISED static void Name##_##T(                              \
      const Name##Step<T>& step, int64_t n, const T* g, Pull<T> pull, T* w, \
      const std::array<T*, num_slots>& slots) {                             \
    Run(step, n, g, pull, w, slots, std::make_index_sequence<num_slots>()); \
  }                                                                         \
  template <>                                                               \
  void Name<T>::Update(int64_t n, const T* g, Pull<T> pull, T* w,           \
                       const std::array<T*, num_slots>& slots) const {      \
    Name##_##T(*this, n, g, pull, w, slots);                                \
  }
#define TENSORBOW_RULE(Name, num_slots)       \
  TENSORBOW_RULE_FOR(Name, num_slots, float)  \
  TENSORBOW_RULE_FOR(Name, num_slots, double) \
  TENSORBOW_RULE_FOR(Name, num_slots, Half)   \
  TENSORBOW_RULE_FOR(Name, num_slots, Bfloat16)
TENSORBOW_RULE(Assign, 0)
TENSORBOW_UPDATE_STEPS(TENSORBOW_RULE)

}  // namespace tensorbow
