// SPDX-License-Identifier: Apache-2.0
// The body that turns queries and keys by the positions of their tokens (exec/step/rotary_rule.hpp).
#pragma once
#include <cmath>
#include <numbers>

#include "exec/device/launch.hpp"

namespace dovetail::exec {

// Cosine and sine of an angle in whole turns. A GPU's own take half turns, and need no table for large angles.
template <class Number>
struct Direction {
  Number cosine, sine;
  DOVETAIL_BOTH explicit Direction(Number turns) {
#ifdef __CUDA_ARCH__
    sincospi(2 * turns, &sine, &cosine);
#else
    const Number angle = 2 * std::numbers::pi_v<Number> * turns;
    cosine = std::cos(angle);
    sine = std::sin(angle);
#endif
  }
};

// By token and pack of pairs: these pairs of all its heads, turned. A token's row begins with the heads' part that is
// turned, and the steps are from one head's to the next; `to` may be `from`.
template <class Scalar, int size>
struct TurnHeads {
  const Scalar* from;
  std::int64_t from_length, from_step;
  Scalar* to;
  std::int64_t to_length, to_step;
  std::int64_t sequence, heads, head_size;  // head_size: of the part
  const double* speeds;                     // turns from one position to the next, by pair
  int way;                                  // -1: back
  DOVETAIL_BOTH void operator()(std::int64_t i) const {
    using Number = Wide<Scalar>;
    const std::int64_t half = head_size / 2, packs = half / size, token = i / packs, first = i % packs * size;
    const auto position = static_cast<double>(token % sequence);
    Number cosine[size], sine[size];
    for (int j = 0; j < size; ++j) {
      const double turns = position * speeds[first + j];  // a float has no digits for many turns
      const Direction<Number> at(static_cast<Number>(turns - std::floor(turns)));
      cosine[j] = at.cosine;
      sine[j] = static_cast<Number>(way) * at.sine;
    }
    const Scalar* source = from + token * from_length + first;
    Scalar* target = to + token * to_length + first;
    for (std::int64_t head = 0; head < heads; ++head, source += from_step, target += to_step) {
      const Pack<size, Scalar> low = load<size>(source), high = load<size>(source + half);
      Pack<size, Scalar> new_low, new_high;
      for (int j = 0; j < size; ++j) {
        const Number a = wide(low.at[j]), b = wide(high.at[j]);
        new_low.at[j] = narrow<Scalar>(a * cosine[j] - b * sine[j]);
        new_high.at[j] = narrow<Scalar>(b * cosine[j] + a * sine[j]);
      }
      store(target, new_low);
      store(target + half, new_high);
    }
  }
};

}  // namespace dovetail::exec
