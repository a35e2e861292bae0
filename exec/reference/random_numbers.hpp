// SPDX-License-Identifier: Apache-2.0
// Random numbers that follow from a key and a place alone, so that any part of a tensor can be drawn by itself.
#pragma once
#include <cstdint>

namespace dovetail::exec {

// The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): each bit depends on every bit of x.
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Number `index` of the sequence that `key` names: mean 0, variance 1, about normal. It is the sum of four uniform
// 16-bit numbers, so that no machine's logarithm decides about it; none is larger than 3.5.
inline double about_normal(std::uint64_t key, std::uint64_t index) {
  constexpr double mean = 4 * 65535 / 2., one_over_deviation = 1.7320508075688772 / 65536;
  const std::uint64_t bits = mixed(key + (index + 1) * 0x9e3779b97f4a7c15U);
  const std::uint64_t sum = (bits & 0xffffU) + (bits >> 16 & 0xffffU) + (bits >> 32 & 0xffffU) + (bits >> 48);
  return (static_cast<double>(sum) - mean) * one_over_deviation;
}

}  // namespace dovetail::exec
