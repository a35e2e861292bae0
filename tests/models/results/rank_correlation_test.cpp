// SPDX-License-Identifier: Apache-2.0
#include "models/results/rank_correlation.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace dovetail;

TEST_CASE("Rank correlation is Spearman's, ties share their rank") {
  const std::vector<double> rising{1, 2, 3, 4}, falling{9, 7, 5, 3}, tied{1, 1, 2, 3};
  CHECK(rank_correlation(rising, rising) == Approx(1));
  CHECK(rank_correlation(rising, falling) == Approx(-1));
  // Ranks 0 1 2 3 and .5 .5 2 3: covariance 1.5 + .5 + .25 + 2.25 = 4.5 (by parts: -1.5*-1, -.5*-1, .5*.5, 1.5*1.5);
  // variances 5 and 1 + 1 + .25 + 2.25 = 4.5.
  CHECK(rank_correlation(rising, tied) == Approx(4.5 / std::sqrt(5 * 4.5)));
  CHECK(std::isnan(rank_correlation(rising, std::vector<double>(4, 1.0))));
}
