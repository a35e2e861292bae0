// SPDX-License-Identifier: Apache-2.0
// The time of a module known only by measurement, as a function of its size.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/provenance.hpp"
#include "models/base/units.hpp"

namespace dovetail {

struct ProfilePoint {
  double size = 0;  // rows or tokens
  Seconds time;
};

// Straight lines through the points, which are in ascending order of size; beyond the ends the nearest line goes on.
// A fit alpha + n beta is one such line.
class TimeCurve {
 public:
  TimeCurve() = default;
  // At least two points, sizes ascending.
  TimeCurve(std::vector<ProfilePoint> points, bool fitted);
  static TimeCurve fit(Seconds alpha, Seconds beta);

  bool empty() const { return points_.empty(); }
  bool fitted() const { return fitted_; }
  const std::vector<ProfilePoint>& points() const { return points_; }  // of a fit: the first is at 0
  bool measured_at(double size) const;  // false where a list of points has to be extrapolated; a fit holds anywhere

  // The two parts of the line at `size`: one that does not grow with the size, and one that does. Neither is negative.
  struct Cost {
    Seconds fixed, growing;
  };
  Cost at(double size) const;

 private:
  std::vector<ProfilePoint> points_;
  bool fitted_ = false;
};

struct TimeProfile {
  TimeCurve forward, backward;  // backward empty: for forward-only steps
  Provenance provenance;
  bool given() const { return !forward.empty(); }
};

}  // namespace dovetail
