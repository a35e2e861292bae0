// SPDX-License-Identifier: Apache-2.0
// Sums in the order of a group's members, so that every transport rounds alike.
#pragma once
#include <cstdint>
#include <span>

#include "exec/transport/transport.hpp"

namespace dovetail::exec {

template <class Use>
void with_type(Element element, Use use) {
  if (element == Element::Float)
    use(float{});
  else
    use(double{});
}

inline std::size_t size_of(Element element) {
  return element == Element::Float ? sizeof(float) : sizeof(double);
}

// to[i] = sum over the members' from[m][i], i < count. `to` may be one of the ranges.
template <class Scalar>
void sum_in_order(std::span<const Scalar* const> from, std::int64_t count, Scalar* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Scalar total = from[0][i];
    for (std::size_t m = 1; m < from.size(); ++m) total += from[m][i];
    to[i] = total;
  }
}

}  // namespace dovetail::exec
