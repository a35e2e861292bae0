// SPDX-License-Identifier: Apache-2.0
// A cost alpha + n beta outside of the sizes that it was fitted to, which its provenance lists.
//
// A fit knows its rate where alpha is a small part of the time of its largest size, and its alpha where that is most of
// the time of its smallest. Another calibration may say the rest: small messages alone say nothing of a bandwidth. The
// further away a size, the less sure is its time.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "models/base/provenance.hpp"
#include "models/price/resource_time.hpp"

namespace dovetail {

template <class PerUnit>
struct Outside {
  std::optional<Seconds> alpha;  // of the smallest sizes; none: that of the fit
  std::optional<PerUnit> beta;   // of each unit beyond the largest size; none: that of the fit
  double off = 0;                // of no file: by this power of `tenfold_within` times are off, for each tenfold
};

// Nine of ten costs are within this factor at ten times the largest size or a tenth of the smallest: by choice, as an
// assumed rate.
inline constexpr double tenfold_within = 1.3;

struct MeasuredSizes {
  double least = 0, most = std::numeric_limits<double>::infinity();  // of a cost without a fit
  // How many times as large, or as small, as what was measured; 1 within.
  double distance(double size) const { return size > most ? size / most : size > 0 && size < least ? least / size : 1; }
};
MeasuredSizes measured_sizes(const Provenance& provenance);

// The time of n bytes or flops, in so many equal launches.
template <class Cost, class Amount>
ResourceTime time_of(const Cost& cost, Amount n, double launches = 1) {
  ResourceTime time{launches * cost.alpha, n * cost.beta};
  if (cost.provenance.fit == nullptr || !(launches > 0)) return time;
  const auto& outside = cost.outside;
  const MeasuredSizes measured = measured_sizes(cost.provenance);
  const Amount each = n / launches, least(measured.least), most(measured.most);
  if (outside.beta && each > most) time.busy = launches * (most * cost.beta + (each - most) * *outside.beta);
  if (outside.alpha && each < least) {
    const Seconds smallest = cost.alpha + least * cost.beta, fixed = std::min(*outside.alpha, smallest);
    time = {launches * fixed, launches * ((each / least) * (smallest - fixed))};
  }
  if (outside.off != 0)
    time.busy = time.busy * std::pow(tenfold_within, outside.off * std::log10(measured.distance(each.value())));
  return time;
}

// Whether the sizes of a fit tell its rate, and its alpha.
template <class Cost>
bool knows_rate(const Cost& cost) {
  constexpr double small = .05;
  const double most = measured_sizes(cost.provenance).most;
  return cost.provenance.fit == nullptr || cost.alpha <= small * (cost.alpha + Seconds(most * cost.beta.value()));
}
template <class Cost>
bool knows_alpha(const Cost& cost) {
  constexpr double large = .5;
  const double least = measured_sizes(cost.provenance).least;
  return cost.provenance.fit == nullptr || cost.alpha >= large * (cost.alpha + Seconds(least * cost.beta.value()));
}

// Takes from a line of another calibration what `measured` does not know.
template <class Cost, class PerUnit>
void take_outside(Cost& measured, Seconds alpha, PerUnit beta) {
  if (!knows_alpha(measured)) measured.outside.alpha = alpha;
  if (!knows_rate(measured)) measured.outside.beta = beta;
}

}  // namespace dovetail
