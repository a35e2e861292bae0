// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., "RoFormer", arXiv:2104.09864, equation 34), as kernels and the reference turn queries
// and keys: in each head the elements (i, i + head_size / 2) are a pair, and that of the token at position p of its
// sample is turned by the angle p / rotary_base^(2 i / head_size). A score then depends on the difference of two
// positions alone. Gradients are turned back by the same angle.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace dovetail::exec {

// The rope_theta of Llama 2, DeepSeek and OLMoE. Models with another one are executed with this one.
inline constexpr double rotary_base = 10000;

enum class Turn { On, Back };

// Radians from one position to the next, by pair.
inline std::vector<double> rotary_speeds(std::int64_t head_size) {
  std::vector<double> speeds;
  for (std::int64_t i = 0; i < head_size / 2; ++i)
    speeds.push_back(std::pow(rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(head_size)));
  return speeds;
}

}  // namespace dovetail::exec
