// SPDX-License-Identifier: Apache-2.0
#include "models/question/time_profile.hpp"

#include <algorithm>

#include "models/base/errors.hpp"

namespace dovetail {

TimeCurve::TimeCurve(std::vector<ProfilePoint> points, bool fitted) : points_(std::move(points)), fitted_(fitted) {
  check(points_.size() >= 2 && std::ranges::is_sorted(points_, std::ranges::less_equal(), &ProfilePoint::size),
        "a profile needs two points, in ascending order");
}

TimeCurve TimeCurve::fit(Seconds alpha, Seconds beta) {
  constexpr double far = 0x1p20;  // so that the slope keeps its digits beside alpha
  return {{{0, alpha}, {far, alpha + far * beta}}, true};
}

bool TimeCurve::measured_at(double size) const {
  return fitted_ || (points_.front().size <= size && size <= points_.back().size);
}

TimeCurve::Cost TimeCurve::at(double size) const {
  const auto above = std::ranges::upper_bound(points_, size, {}, &ProfilePoint::size);
  const auto high = std::clamp(above, points_.begin() + 1, points_.end() - 1), low = high - 1;
  const Seconds slope = (high->time - low->time) / (high->size - low->size);
  const Seconds time = std::max(Seconds(0), low->time + (size - low->size) * slope);
  const Seconds fixed = std::clamp(low->time - low->size * slope, Seconds(0), time);
  return {fixed, time - fixed};
}

}  // namespace dovetail
