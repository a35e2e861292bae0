// SPDX-License-Identifier: Apache-2.0
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

// Sorted by size, and with r2 as fit_line() has it.
Fit with_r2(Fit fit);

// A time that is a sum of terms, each with a coefficient.
struct TimedTerms {
  std::vector<double> terms;  // >= 0
  Seconds time;
};

struct TermsFit {
  std::vector<Seconds> coefficients;  // per unit of each term
  std::vector<double> errors;         // fitted / measured - 1, in the order of the points
};

// The coefficients >= 0 with the least sum of (fitted / t - 1)^2. At most one is above 0 for each two points, so that a
// few points do not explain themselves; of terms that fit as well the first is taken. Throws InputError unless there
// are points, all with as many terms and a positive time.
TermsFit fit_terms(const std::vector<TimedTerms>& points);

}  // namespace dovetail
