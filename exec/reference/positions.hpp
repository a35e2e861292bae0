// SPDX-License-Identifier: Apache-2.0
// Rotary positions of the reference (exec/step/rotary_rule.hpp), element by element.
#pragma once
#include <cmath>

#include "exec/reference/naive.hpp"
#include "exec/step/rotary_rule.hpp"

namespace dovetail::exec::naive {

// Rows of `width` elements that consist of heads, in each of which the elements from `first` on have a position.
struct Heads {
  Size width, size, first = 0;
};

// Rows, one for each token, turned by the token's position in its sample, or back.
inline void turn(const Sizes& s, const Heads& heads, Turn way, Values& rows) {
  if (!s.rotary || heads.width == 0) return;
  const Size half = (heads.size - heads.first) / 2;
  for (Size at = heads.first; at < rows.size(); at += heads.size)
    for (Size i = 0; i < half; ++i) {
      const auto position = static_cast<double>(at / heads.width % s.sequence);
      const double speed = std::pow(rotary_base, -static_cast<double>(i) / static_cast<double>(half));
      const double angle = (way == Turn::On ? 1 : -1) * position * speed;
      const double low = rows[at + i], high = rows[at + half + i];
      rows[at + i] = low * std::cos(angle) - high * std::sin(angle);
      rows[at + half + i] = high * std::cos(angle) + low * std::sin(angle);
    }
}

}  // namespace dovetail::exec::naive
