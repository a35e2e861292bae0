// SPDX-License-Identifier: Apache-2.0
// AMPipe's closed form of a pass in p chunks (appendix C).
#pragma once
#include <algorithm>

namespace dovetail::bench {

// Times of all chunks together, in one unit; all_to_all: of one of the two.
struct AmpipeCost {
  double attention, all_to_all, experts;  // A, C, M in the paper
};

// A/p + max(A, C)/p (p - 1) + max(M, C)/p p + C/p, all else hidden.
inline double ampipe_formula(const AmpipeCost& cost, int p) {
  const auto [a, c, m] = cost;
  return a / p + std::max(a, c) / p * (p - 1) + std::max(m, c) + c / p;
}

}  // namespace dovetail::bench
