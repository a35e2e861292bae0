// Fits alpha + n beta to measured times.
#pragma once
#include <vector>

#include "models/base/provenance.hpp"

namespace dovetail {

struct TimedSize {
  double size = 0;  // n
  Seconds time;
};

struct LineFit {
  Seconds alpha, beta;  // beta: per unit of n
  Fit quality;
};

// The alpha and beta >= 0 with the least sum of ((alpha + n beta) / t - 1)^2: small sizes count as much as large ones.
// Its r2 is 1 - sum w (alpha + n beta - t)^2 / sum w (t - mean)^2 with w = 1 / t^2 and the mean by the same weights.
// Throws InputError unless there are two different sizes and all times are positive.
LineFit fit_line(std::vector<TimedSize> points);

}  // namespace dovetail
