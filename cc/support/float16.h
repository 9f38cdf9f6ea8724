// The two 16-bit floating-point formats, as plain bits with conversions to and from
// float (round to nearest even). Arithmetic is done in float and rounded after every
// operation, as in TensorFlow's kernels.
#ifndef TENSORBOW_CC_SUPPORT_FLOAT16_H_
#define TENSORBOW_CC_SUPPORT_FLOAT16_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tensorbow {

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Returns yes ? a : b without a branch, which would keep loops from being vectorised.
inline uint32_t Select(bool yes, uint32_t a, uint32_t b) {
  return b ^ ((a ^ b) & -uint32_t{yes});
}

// bfloat16: the upper half of an IEEE binary32.
struct Bfloat16 {
  uint16_t bits;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const uint32_t b = BitsOf(value);
    bits = value != value ? static_cast<uint16_t>((b >> 16) | 0x0040)
                          : static_cast<uint16_t>((b + 0x7fff + ((b >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return FloatOf(uint32_t{bits} << 16); }
};

// IEEE binary16.
struct Half {
  uint16_t bits;

  Half() = default;
  explicit Half(float value) {
    const uint32_t sign = (BitsOf(value) >> 16) & 0x8000;
    const uint32_t magnitude = BitsOf(value) & 0x7fffffff;
    const uint32_t normal =
        (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const uint32_t subnormal =  // the FPU does the rounding
        BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
    uint32_t half = Select(magnitude < 0x38800000, subnormal, normal);
    half = Select(magnitude >= 0x477ff000, 0x7c00, half);  // 2^16 or more: infinity
    half = Select(magnitude > 0x7f800000, 0x7e00, half);   // NaN
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    const uint32_t sign = (uint32_t{bits} & 0x8000) << 16;
    const uint32_t magnitude = (uint32_t{bits} & 0x7fff) << 13;
    const uint32_t exponent = magnitude & 0x0f800000;
    const uint32_t subnormal =  // or zero
        BitsOf(FloatOf(magnitude + 0x38800000) - FloatOf(0x38800000));
    uint32_t value = Select(exponent == 0, subnormal, magnitude + 0x38000000);
    value = Select(exponent == 0x0f800000, magnitude + 0x70000000, value);
    return FloatOf(sign | value);
  }
};

#define TENSORBOW_ARITHMETIC(T)                              \
  inline T operator+(T a, T b) {                             \
    return T(static_cast<float>(a) + static_cast<float>(b)); \
  }                                                          \
  inline T operator-(T a, T b) {                             \
    return T(static_cast<float>(a) - static_cast<float>(b)); \
  }                                                          \
  inline T operator*(T a, T b) {                             \
    return T(static_cast<float>(a) * static_cast<float>(b)); \
  }                                                          \
  inline T operator/(T a, T b) {                             \
    return T(static_cast<float>(a) / static_cast<float>(b)); \
  }                                                          \
  inline T& operator+=(T& a, T b) { return a = a + b; }      \
  inline T sqrt(T a) { return T(std::sqrt(static_cast<float>(a))); }
TENSORBOW_ARITHMETIC(Bfloat16)
TENSORBOW_ARITHMETIC(Half)
#undef TENSORBOW_ARITHMETIC

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_FLOAT16_H_
