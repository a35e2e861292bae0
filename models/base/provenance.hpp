// SPDX-License-Identifier: Apache-2.0
// The origin of a number.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail {

enum class Origin { Published, Measured, Fitted, Assumed };
inline constexpr std::array<std::pair<std::string_view, Origin>, 4> origin_names{{{"published", Origin::Published},
                                                                                  {"measured", Origin::Measured},
                                                                                  {"fitted", Origin::Fitted},
                                                                                  {"assumed", Origin::Assumed}}};

// One of the measured points to which a cost alpha + n beta was fitted.
struct FitPoint {
  double size = 0;  // n: bytes, or flops of a GEMM
  Seconds time;
  double error = 0;  // fitted / measured - 1
};
struct Fit {
  std::vector<FitPoint> points;  // by ascending size
  double r2 = 0;                 // of the relative errors, see fit.hpp
};
double worst_error(const Fit& fit);     // largest |error|
inline constexpr double usual_r2 = .9;  // by choice: measured costs that follow a line have more

struct Provenance {
  Origin origin = Origin::Assumed;
  std::string source;      // paper and figure, or host, date and tool, with the published unit
  bool disturbed = false;  // measured while threads had to share cores: not to be trusted
  std::shared_ptr<const Fit> fit = nullptr;
  double within = 0;  // of ten such costs, nine are within this factor; 0: not stated, see price/cost_ranges.hpp

  bool fits_badly() const { return fit != nullptr && fit->r2 < usual_r2; }
};

}  // namespace dovetail
