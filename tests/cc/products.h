// Helpers for the tests of matrix products.
#ifndef TENSORBOW_TESTS_CC_PRODUCTS_H_
#define TENSORBOW_TESTS_CC_PRODUCTS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace tensorbow {

// Returns whether multiply-adds are rounded once on this processor.
inline bool HasMultiplyAdd() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// Returns normally distributed numbers, different ones with every call.
inline std::vector<float> Random(int64_t size) {
  static std::minstd_rand generator;
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

}  // namespace tensorbow

#endif  // TENSORBOW_TESTS_CC_PRODUCTS_H_
