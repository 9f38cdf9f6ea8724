#include "cc/optimiser/update_rules.h"

#include <cmath>

#include "cc/support/vectorise.h"

namespace tensorbow {
namespace {

using std::sqrt;  // beside those of 16-bit numbers

// Of a 16-bit number it is rounded once.
template <typename T>
TENSORBOW_INLINE T ReciprocalSqrt(T x) {
  using A = Accumulator<T>;
  return static_cast<T>(A(1) / std::sqrt(static_cast<A>(x)));
}

// Calls step(i, w[i]) for the new value of every element, less the correction. The two
// loops are apart so that each has no branch in it.
template <typename T, typename Step>
TENSORBOW_INLINE void ForEach(int64_t n, Pull<T> pull, T* __restrict w, Step step) {
  if (pull.z == nullptr) {
    for (int64_t i = 0; i < n; ++i) w[i] = step(i, w[i]);
  } else {
    using A = Accumulator<T>;
    const A* __restrict z = pull.z;
    for (int64_t i = 0; i < n; ++i) {
      const T before = w[i];
      const A correction = pull.alpha * (static_cast<A>(before) - z[i]);
      w[i] = static_cast<T>(static_cast<A>(step(i, before)) - correction);
    }
  }
}

template <typename T>
TENSORBOW_INLINE void Run(const Assign<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w) {
  switch (r.assignment) {
    case Assignment::kReplace:
      return ForEach(n, pull, w, [=](int64_t i, T) { return g[i]; });
    case Assignment::kAdd:
      return ForEach(n, pull, w, [=](int64_t i, T x) { return x + g[i]; });
    case Assignment::kSubtract:
      return ForEach(n, pull, w, [=](int64_t i, T x) { return x - g[i]; });
  }
}

template <typename T>
TENSORBOW_INLINE void Run(const GradientDescent<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w) {
  const T lr = r.learning_rate;
  ForEach(n, pull, w, [=](int64_t i, T x) { return x - g[i] * lr; });
}

template <typename T>
TENSORBOW_INLINE void Run(const Momentum<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w, T* __restrict a) {
  const T lr = r.learning_rate, m = r.momentum;
  if (r.nesterov) {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      a[i] = a[i] * m + g[i];
      return x - (g[i] * lr + a[i] * m * lr);
    });
  } else {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      a[i] = a[i] * m + g[i];
      return x - a[i] * lr;
    });
  }
}

template <typename T>
TENSORBOW_INLINE void Run(const KerasMomentum<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w, T* __restrict a) {
  const T lr = r.learning_rate, m = r.momentum;
  if (r.nesterov) {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      a[i] = a[i] * m - g[i] * lr;
      return x + (a[i] * m - g[i] * lr);
    });
  } else {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      a[i] = a[i] * m - g[i] * lr;
      return x + a[i];
    });
  }
}

template <typename T>
TENSORBOW_INLINE void Run(const Adam<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w, T* __restrict m,
                          T* __restrict v) {
  const T rate = r.rate, beta1 = r.beta1, epsilon = r.epsilon;
  const T one_less_beta1 = T(1) - r.beta1, one_less_beta2 = T(1) - r.beta2;
  if (r.nesterov) {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      m[i] += (g[i] - m[i]) * one_less_beta1;
      v[i] += (g[i] * g[i] - v[i]) * one_less_beta2;
      return x -
             ((g[i] * one_less_beta1 + beta1 * m[i]) * rate) / (sqrt(v[i]) + epsilon);
    });
  } else {
    ForEach(n, pull, w, [=](int64_t i, T x) {
      m[i] += (g[i] - m[i]) * one_less_beta1;
      v[i] += (g[i] * g[i] - v[i]) * one_less_beta2;
      return x - (m[i] * rate) / (sqrt(v[i]) + epsilon);
    });
  }
}

template <typename T>
TENSORBOW_INLINE void Run(const RmsProp<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w, T* __restrict s,
                          T* __restrict a) {
  const T lr = r.learning_rate, momentum = r.momentum, epsilon = r.epsilon;
  const T one_less_rho = T(1) - r.rho;
  ForEach(n, pull, w, [=](int64_t i, T x) {
    s[i] += (g[i] * g[i] - s[i]) * one_less_rho;
    a[i] = a[i] * momentum + (g[i] * lr) / sqrt(s[i] + epsilon);
    return x - a[i];
  });
}

template <typename T>
TENSORBOW_INLINE void Run(const Adagrad<T>& r, int64_t n, const T* __restrict g,
                          Pull<T> pull, T* __restrict w, T* __restrict a) {
  const T lr = r.learning_rate, epsilon = r.epsilon;
  if (r.update_slots) {
    for (int64_t i = 0; i < n; ++i) a[i] += g[i] * g[i];
  }
  if (r.has_epsilon) {
    ForEach(n, pull, w,
            [=](int64_t i, T x) { return x - g[i] * lr / (sqrt(a[i]) + epsilon); });
  } else {
    ForEach(n, pull, w,
            [=](int64_t i, T x) { return x - g[i] * lr * ReciprocalSqrt(a[i]); });
  }
}

}  // namespace

// target_clones goes with plain functions only: one for each rule and type.
#define TENSORBOW_RULE_1(Rule, T)                                               \
  TENSORBOW_VECTORISED static void Rule##_##T(const Rule<T>& rule, int64_t n,   \
                                              const T* g, Pull<T> pull, T* w) { \
    Run(rule, n, g, pull, w);                                                   \
  }                                                                             \
  template <>                                                                   \
  void Rule<T>::operator()(int64_t n, const T* g, Pull<T> pull, T* w) const {   \
    Rule##_##T(*this, n, g, pull, w);                                           \
  }
#define TENSORBOW_RULE_2(Rule, T)                                                     \
  TENSORBOW_VECTORISED static void Rule##_##T(const Rule<T>& rule, int64_t n,         \
                                              const T* g, Pull<T> pull, T* w, T* a) { \
    Run(rule, n, g, pull, w, a);                                                      \
  }                                                                                   \
  template <>                                                                         \
  void Rule<T>::operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* a) const {   \
    Rule##_##T(*this, n, g, pull, w, a);                                              \
  }
#define TENSORBOW_RULE_3(Rule, T)                                                   \
  TENSORBOW_VECTORISED static void Rule##_##T(                                      \
      const Rule<T>& rule, int64_t n, const T* g, Pull<T> pull, T* w, T* a, T* b) { \
    Run(rule, n, g, pull, w, a, b);                                                 \
  }                                                                                 \
  template <>                                                                       \
  void Rule<T>::operator()(int64_t n, const T* g, Pull<T> pull, T* w, T* a, T* b)   \
      const {                                                                       \
    Rule##_##T(*this, n, g, pull, w, a, b);                                         \
  }

#define TENSORBOW_TYPES(RULE, Rule) \
  RULE(Rule, float)                 \
  RULE(Rule, double)                \
  RULE(Rule, Half)                  \
  RULE(Rule, Bfloat16)
TENSORBOW_TYPES(TENSORBOW_RULE_1, Assign)
TENSORBOW_TYPES(TENSORBOW_RULE_1, GradientDescent)
TENSORBOW_TYPES(TENSORBOW_RULE_2, Momentum)
TENSORBOW_TYPES(TENSORBOW_RULE_2, KerasMomentum)
TENSORBOW_TYPES(TENSORBOW_RULE_3, Adam)
TENSORBOW_TYPES(TENSORBOW_RULE_3, RmsProp)
TENSORBOW_TYPES(TENSORBOW_RULE_2, Adagrad)

}  // namespace tensorbow
