// SPDX-License-Identifier: Apache-2.0
// Random numbers that are functions of their seed: the same on every machine and in any order.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace dovetail {

// The output function of SplitMix64 (Steele, Lea and Flood, 2014): each bit depends on every bit of x.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline std::uint64_t mixed(std::uint64_t seed, std::string_view text) {
  for (const char c : text) seed = mixed(seed ^ static_cast<unsigned char>(c));
  return seed;
}

// Nine of ten draws of a normal quantity are within so many standard deviations of its mean.
inline constexpr double nine_of_ten = 1.6448536269514722;

// Above 0, at most 1.
inline double uniform_draw(std::uint64_t seed) {
  return static_cast<double>((mixed(seed) >> 11) + 1) * 0x1p-53;
}

// Standard normal (Box and Muller, 1958).
inline double normal_draw(std::uint64_t seed) {
  return std::sqrt(-2 * std::log(uniform_draw(seed))) * std::cos(2 * std::numbers::pi * uniform_draw(mixed(seed) + 1));
}

}  // namespace dovetail
