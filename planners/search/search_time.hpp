// SPDX-License-Identifier: Apache-2.0
// Times as a search compares them.
#pragma once
#include "models/base/units.hpp"

namespace dovetail::planners {

// Later than any plan.
inline constexpr Seconds never(1e300);

// Times closer than this share of them differ by rounding only.
inline constexpr double time_rounding = 1e-12;

inline bool faster(Seconds a, Seconds b) {
  return a < b * (1 - time_rounding);
}

}  // namespace dovetail::planners
