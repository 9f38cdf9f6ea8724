// The two 16-bit floating-point formats a variable may be stored in, as plain
// bits with conversions to and from float (round to nearest even). Only loads and
// stores: all arithmetic on them is done in float.
#ifndef TENSORBOW_CC_SUPPORT_FLOAT16_H_
#define TENSORBOW_CC_SUPPORT_FLOAT16_H_

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

// The upper half of an IEEE binary32.
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
    uint32_t half;
    if (magnitude > 0x7f800000) {  // NaN
      half = 0x7e00;
    } else if (magnitude >= 0x477ff000) {  // rounds to 2^16 or more: infinity
      half = 0x7c00;
    } else if (magnitude < 0x38800000) {  // subnormal: let the FPU do the rounding
      half = BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
    } else {
      half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    const uint32_t sign = (uint32_t{bits} & 0x8000) << 16;
    const uint32_t magnitude = (uint32_t{bits} & 0x7fff) << 13;
    const uint32_t exponent = magnitude & 0x0f800000;
    if (exponent == 0x0f800000) return FloatOf(sign | (magnitude + 0x70000000));
    if (exponent == 0) {  // zero or subnormal
      const float value = FloatOf(magnitude + 0x38800000) - FloatOf(0x38800000);
      return FloatOf(sign | BitsOf(value));
    }
    return FloatOf(sign | (magnitude + 0x38000000));
  }
};

}  // namespace tensorbow

#endif  // TENSORBOW_CC_SUPPORT_FLOAT16_H_
