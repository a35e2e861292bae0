// SPDX-License-Identifier: Apache-2.0
// Bodies that round rows to the formats they are sent in, and back. Fp8: e4m3 bytes, then the fp32 scale of the row.
#pragma once
#include <cmath>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

// e4m3: 1 sign, 4 exponent bits (bias 7), 3 of the mantissa; at most 448, steps of 2^-9 below 2^-6. Nearest, ties to
// even; larger numbers become 448.
DOVETAIL_BOTH inline std::uint8_t e4m3(double value) {
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const double size = std::fabs(value);
  if (!(size <= 448)) return static_cast<std::uint8_t>(sign | (size > 448 ? 0x7e : 0x7f));
  const int exponent = size < 0x1p-6 ? -6 : std::ilogb(size);
  // In steps of 2^(exponent - 3): 8 to 16 where normal; 16 carries into the exponent by itself.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
  const int bits = (exponent + 6) * 8 + steps;  // normal numbers have 8 in their steps: the exponent's lowest bit
  return static_cast<std::uint8_t>(sign | (bits > 0x7e ? 0x7e : bits));
}
DOVETAIL_BOTH inline double from_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return NAN;
  const double size =
      exponent == 0 ? std::ldexp(double(mantissa), -9) : std::ldexp(double(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -size : size;
}

template <class Scalar>
struct CompressFp8 {
  const Scalar* from;
  std::uint8_t* to;
  std::int64_t hidden;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const Scalar* const source = from + row * hidden;
    std::uint8_t* const target = to + row * (hidden + 4);
    double largest = 0;
    for_columns<Scalar>(lanes, hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value;
      const Pack<size, Scalar> values = load_constant<size>(source + c);
      for (int j = 0; j < size; ++j) {
        const double value = std::fabs(static_cast<double>(wide(values.at[j])));
        largest = value > largest ? value : largest;
      }
    });
    largest = lanes.max(largest);
    auto scale = static_cast<float>(largest / 448);
    if (!(scale > 0)) scale = 1;
    for_columns<Scalar>(lanes, hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value, part = size < 4 ? size : 4;  // rows begin at multiples of 4 bytes
      const Pack<size, Scalar> values = load_constant<size>(source + c);
      for (int first = 0; first < size; first += part) {
        Pack<part, std::uint8_t> bytes;
        for (int j = 0; j < part; ++j) bytes.at[j] = e4m3(wide(values.at[first + j]) / static_cast<double>(scale));
        store(target + c + first, bytes);
      }
    });
    if (lanes.index() == 0) memcpy(target + hidden, &scale, sizeof scale);
  }
};

template <class Scalar>
struct DecompressFp8 {
  const std::uint8_t* from;
  Scalar* to;
  std::int64_t hidden;
  template <class Lanes>
  DOVETAIL_BOTH void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::uint8_t* const source = from + row * (hidden + 4);
    float scale;
    memcpy(&scale, source + hidden, sizeof scale);
    for_columns<Scalar>(lanes, hidden, [&](std::int64_t c, auto count) {
      constexpr int size = decltype(count)::value, part = size < 4 ? size : 4;
      Pack<size, Scalar> values;
      for (int first = 0; first < size; first += part) {
        const Pack<part, std::uint8_t> bytes = load_constant<part>(source + c + first);
        for (int j = 0; j < part; ++j)
          values.at[first + j] = narrow<Scalar>(static_cast<Wide<Scalar>>(from_e4m3(bytes.at[j]) * scale));
      }
      store(to + row * hidden + c, values);
    });
  }
};

template <class Scalar, int size>
struct ToBf16 {
  const Scalar* from;
  Bf16* to;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Pack<size, Scalar> values = load_constant<size>(from + i * size);
    Pack<size, Bf16> result;
    for (int j = 0; j < size; ++j) result.at[j] = bf16(wide(values.at[j]));
    store(to + i * size, result);
  }
};
template <class Scalar, int size>
struct FromBf16 {
  const Bf16* from;
  Scalar* to;
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    const Pack<size, Bf16> values = load_constant<size>(from + i * size);
    Pack<size, Scalar> result;
    for (int j = 0; j < size; ++j) result.at[j] = narrow<Scalar>(wide(values.at[j]));
    store(to + i * size, result);
  }
};

}  // namespace dovetail::exec
