// SPDX-License-Identifier: Apache-2.0
// The norm of a rank's gradients, and gradients that are clipped by the norm of all.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "exec/host/op_context.hpp"
#include "exec/step/clip_rule.hpp"
#include "models/schedule/shards.hpp"

namespace dovetail::exec {

template <class Scalar>
void gradient_norm(OpContext<Scalar>& c) {
  double sum = 0;
  for (const GradientShare& share : gradient_shares(c.schedule, c.schedule.class_of(c.op), c.rank)) {
    const Scalar* const first = c.data(share.tensor) + share.elements.first;
    sum += std::inner_product(first, first + share.elements.size(), first, 0.0) / share.copies;
  }
  *c.write(TensorKind::GradientSquares) = static_cast<Scalar>(sum);
}

// visit(first, gradients) for pieces of `count` gradients, scaled where that makes their norm small enough.
template <class Scalar, class Visit>
void for_clipped(const OpContext<Scalar>& c, const Scalar* gradients, std::int64_t count, Visit visit) {
  const TensorId squares = c.find_read(roles::squares);
  const double scale = squares.exists() ? clip_scale(std::sqrt(*c.data(squares)), c.clip) : 1;
  if (scale == 1) return visit(std::int64_t{0}, std::span(gradients, static_cast<std::size_t>(count)));
  constexpr std::int64_t at_once = 1 << 12;
  std::vector<Scalar> scaled;
  for (std::int64_t first = 0; first < count; first += at_once) {
    scaled.assign(gradients + first, gradients + std::min(count, first + at_once));
    for (Scalar& gradient : scaled) gradient *= static_cast<Scalar>(scale);
    visit(first, std::span<const Scalar>(scaled));
  }
}

}  // namespace dovetail::exec
