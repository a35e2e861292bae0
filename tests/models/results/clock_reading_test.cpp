// SPDX-License-Identifier: Apache-2.0
#include "models/results/clock_reading.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

TEST_CASE("the clock of a run is the median of what was read, of each figure that is known") {
  CHECK(median(std::vector<ClockReading>{}) == ClockReading{});
  CHECK(median({{1800, 600}, {1700, 0}, {1980, 650}}) == ClockReading{1800, 650});  // of two, the later one
  CHECK(median({{0, 0}, {1500, 400}}) == ClockReading{1500, 400});
}

TEST_CASE("times at clocks that are more than 2 % apart are not compared") {
  CHECK(comparable({1980, 0}, {1941, 0}));        // 39 / 1980 = 1.97 %
  CHECK_FALSE(comparable({1980, 0}, {1940, 0}));  // 40 / 1980 = 2.02 %
  CHECK_FALSE(comparable({1700, 0}, {1980, 0}));
  CHECK(comparable({0, 0}, {1980, 0}));  // one is not known
}
