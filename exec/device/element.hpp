// SPDX-License-Identifier: Apache-2.0
// The number formats that tensors on a device are stored in, and what is computed with when they are loaded.
#pragma once
#include <cstdint>
#include <cstring>

#include "exec/step/both.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

// bfloat16: the upper half of a float.
struct Bf16 {
  std::uint16_t bits = 0;
};

DOVETAIL_BOTH inline float float_of_bits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
DOVETAIL_BOTH inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

DOVETAIL_BOTH inline double wide(double x) {
  return x;
}
DOVETAIL_BOTH inline float wide(float x) {
  return x;
}
DOVETAIL_BOTH inline float wide(Bf16 x) {
  return float_of_bits(static_cast<std::uint32_t>(x.bits) << 16);
}

// To the nearest, ties to even; NaN stays NaN.
DOVETAIL_BOTH inline Bf16 bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
  return {rounded};
#endif
  const std::uint32_t bits = bits_of(x);
  if (x != x) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// As if in one rounding: a float in the middle between two bf16 knows which side the double was on.
DOVETAIL_BOTH inline Bf16 bf16(double x) {
  const auto rounded = static_cast<float>(x);
  const std::uint32_t bits = bits_of(rounded);
  const double size = x < 0 ? -x : x, of_rounded = rounded < 0 ? -static_cast<double>(rounded) : rounded;
  if ((bits & 0xffffU) != 0x8000U || size == of_rounded) return bf16(rounded);
  return bf16(float_of_bits(size > of_rounded ? bits + 1 : bits - 1));
}

// The format of computation: bf16 computes with floats, which accumulate and keep scores, others with themselves.
template <class Scalar>
struct WideOf {
  using type = Scalar;
};
template <>
struct WideOf<Bf16> {
  using type = float;
};
template <class Scalar>
using Wide = typename WideOf<Scalar>::type;

template <class Scalar>
DOVETAIL_BOTH Scalar narrow(Wide<Scalar> x) {
  return static_cast<Scalar>(x);
}
template <>
DOVETAIL_BOTH inline Bf16 narrow<Bf16>(float x) {
  return bf16(x);
}

// The case of bf16, whose products a float holds: a double takes long to make.
DOVETAIL_BOTH inline double product_in_double(double a, double b) {
  return a * b;
}
DOVETAIL_BOTH inline double product_in_double(Bf16 a, Bf16 b) {
  return wide(a) * wide(b);
}

// The format of a tensor. Fp8 occurs only in messages, whose rows end with their scale.
enum class Stored { Double, Float, Bf16, Fp8 };

template <class Scalar>
struct StoredOf;
template <>
struct StoredOf<double> {
  static constexpr Stored value = Stored::Double;
};
template <>
struct StoredOf<float> {
  static constexpr Stored value = Stored::Float;
};
template <>
struct StoredOf<Bf16> {
  static constexpr Stored value = Stored::Bf16;
};

inline std::int64_t size_of(Stored stored) {
  switch (stored) {
    case Stored::Double:
      return 8;
    case Stored::Float:
      return 4;
    case Stored::Bf16:
      return 2;
    case Stored::Fp8:
      return 1;
  }
  throw InternalError("a number format without a size");
}

}  // namespace dovetail::exec
