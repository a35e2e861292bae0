// SPDX-License-Identifier: Apache-2.0
// Statistics of measured steps, each with its arithmetic.
#include "models/results/measured_steps.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace dovetail;

namespace {

MeasuredStep step(double measured, double predicted, int job = 0) {
  MeasuredStep s;
  s.measured = Seconds(measured);
  s.predicted = Seconds(predicted);
  s.job = job;
  return s;
}

StepRange range(double low, double high, std::vector<CostInfluence> costs = {}) {
  return {low, high, {1, 1}, std::move(costs)};
}

}  // namespace

TEST_CASE("errors of a step and of its memory are relative, a range holds its ends") {
  MeasuredStep s = step(2, 1.5);
  CHECK(time_error(s) == Approx(-.25));
  CHECK_FALSE(peak_error(s));
  CHECK_FALSE(range_holds(s));
  s.measured_peak = Bytes(10);
  s.predicted_peak = Bytes(11);
  CHECK(peak_error(s).value() == Approx(.1));
  s.range = range(.5, 1.25);  // 0.75 to 1.875 s
  CHECK(range_low(s).value() == Approx(.75));
  CHECK(range_high(s).value() == Approx(1.875));
  CHECK_FALSE(*range_holds(s));
  s.range = range(.5, 4. / 3);  // up to 2 s
  CHECK(*range_holds(s));
}

TEST_CASE("the summary of a source") {
  StepsTable table;
  table.id = "a";
  // Errors +.1, -.2, 0 and -.5: mean of their sizes .2, median (.1 + .2) / 2, signed mean -.15.
  table.steps = {step(10, 11), step(20, 16), step(15, 15, 1), step(30, 15, 1)};
  table.steps[0].range = range(.8, 1.2);  // 8.8 to 13.2 holds 10
  table.steps[1].range = range(.8, 1.2);  // 12.8 to 19.2 does not hold 20
  table.steps[3].measured_peak = Bytes(4);
  table.steps[3].predicted_peak = Bytes(3);
  table.not_stated = {{"b", "why"}};
  const std::vector<StepsSummary> summaries = summarise({&table, 1});
  REQUIRE(summaries.size() == 1);
  const StepsSummary& s = summaries.front();
  CHECK(s.source == "a");
  CHECK(s.times == 4);
  CHECK(s.not_stated == 1);
  CHECK(s.mean_error.value() == Approx(.2));
  CHECK(s.median_error.value() == Approx(.15));
  CHECK(s.signed_error.value() == Approx(-.15));
  // Two pairs have one job: 10 < 20 is predicted 11 < 16; 15 < 30 is predicted 15 = 15, which is no order.
  CHECK(s.pairs == 2);
  CHECK(s.in_order == 1);
  // Ranks measured 0 2 1 3, predicted 0 3 1.5 1.5: covariance -1.5 * -1.5 + .5 * 1.5 + 0 + 0 = 3; variances 5 and 4.5.
  CHECK(s.rank_correlation.value() == Approx(3 / std::sqrt(5 * 4.5)));
  CHECK(s.ranges == 2);
  CHECK(s.held == 1);
  CHECK(s.peaks == 1);
  CHECK(s.peak_error.value() == Approx(.25));
}

TEST_CASE("several sources come together at the end, and pairs stay within a source") {
  std::vector<StepsTable> tables(2);
  tables[0].steps = {step(1, 1), step(2, 2)};
  tables[1].steps = {step(3, 6)};
  const std::vector<StepsSummary> summaries = summarise(tables);
  REQUIRE(summaries.size() == 3);
  CHECK_FALSE(summaries[1].rank_correlation);  // of one step
  CHECK(summaries[2].source == "all");
  CHECK(summaries[2].times == 3);
  CHECK(summaries[2].pairs == 1);
  CHECK(summaries[2].mean_error.value() == Approx(1. / 3));
  CHECK_FALSE(summaries[2].peak_error);
  CHECK(summarise({}).empty());
}

TEST_CASE("pairs of equal measured times have no order") {
  StepsTable table;
  table.steps = {step(5, 4), step(5, 6)};
  CHECK(summarise({&table, 1}).front().pairs == 0);
}

TEST_CASE("costs that matter most over a source, with their origin") {
  StepsTable table;
  table.steps = {step(1, 1), step(1, 1), step(1, 1)};
  table.steps[0].range =
      range(.9, 1.1, {{"launch", Origin::Assumed, 1.5, .8, 1.25}, {"gemm", Origin::Measured, 1.1, .9, 1.1}});
  table.steps[1].range = range(.9, 1.1, {{"gemm", Origin::Measured, 1.1, .8, 1.3}});
  table.steps[2].range = range(.9, 1.1, {{"gemm", Origin::Assumed, 2, .5, 2}});  // of another calibration
  const std::vector<InfluentialCost> costs = influential_costs(table);
  REQUIRE(costs.size() == 3);
  // Widths: ln 4 = 1.39; ln(1.1 / .9) + ln(1.3 / .8) = .20 + .49; ln(1.25 / .8) = .45.
  CHECK(costs[0].origin == Origin::Assumed);
  CHECK(costs[0].within == 2);
  CHECK(costs[1].cost == "gemm");
  CHECK(costs[1].origin == Origin::Measured);
  CHECK(costs[1].steps == 2);
  CHECK(costs[1].fast == Approx(.85));
  CHECK(costs[1].slow == Approx(1.2));
  CHECK(costs[2].cost == "launch");
}
