// SPDX-License-Identifier: Apache-2.0
// How far costs may be off, and calibrations in which they are.
#include "models/price/cost_ranges.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

std::size_t index_of(const CostRanges& ranges, const std::string& name) {
  const auto found = std::ranges::find(ranges.costs(), name, &UncertainCost::name);
  INFO(name);
  REQUIRE(found != ranges.costs().end());
  return static_cast<std::size_t>(found - ranges.costs().begin());
}

double within_of(const CostRanges& ranges, const std::string& name) {
  return ranges.costs()[index_of(ranges, name)].within;
}

Provenance from(Origin origin) {
  return {origin, "made up"};
}

}  // namespace

TEST_CASE("costs that rest on one assumption are off together, published ones each by itself") {
  Calibration c = *test::round_numbers().calibration;     // four assumed collectives on both kinds of links
  c.collectives[0].provenance = from(Origin::Published);  // the all-to-all inside a node
  const CostRanges ranges(c);
  CHECK(within_of(ranges, "all_to_all inside a node") == 1.1);
  CHECK(within_of(ranges, "exchanges inside a node") == 1.3);
  CHECK(within_of(ranges, "latency inside a node") == 2);

  const Calibration slow = ranges.at_end(index_of(ranges, "exchanges between nodes"), 1);
  const Calibration fast = ranges.at_end(index_of(ranges, "exchanges between nodes"), -1);
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    const double off = c.collectives[i].link == LinkKind::Inter ? 1.75 : 1;
    CHECK(slow.collectives[i].beta / c.collectives[i].beta == Approx(off));
    CHECK(fast.collectives[i].beta / c.collectives[i].beta == Approx(1 / off));
    CHECK(slow.collectives[i].alpha == c.collectives[i].alpha);
  }
  const Calibration late = ranges.at_end(index_of(ranges, "latency between nodes"), 1);
  CHECK(late.collectives[1].alpha / c.collectives[1].alpha == Approx(2));
  CHECK(late.collectives[1].beta == c.collectives[1].beta);
}

TEST_CASE("a range is what the file states, else what nine of ten points of a fit keep, else by origin") {
  Calibration c = *test::round_numbers().calibration;
  c.memory.provenance = from(Origin::Measured);
  CHECK(within_of(CostRanges(c), "device memory") == 1.08);
  Fit fit;
  for (int i = 1; i <= 10; ++i) fit.points.push_back({1.0 * i, Seconds(1), i / 100.0});  // errors of 1 to 10 %
  c.memory.provenance.fit = std::make_shared<const Fit>(fit);
  CHECK(within_of(CostRanges(c), "device memory") == Approx(1.09));
  fit.points = {{1, Seconds(1), 0}, {2, Seconds(1), 0}};
  c.memory.provenance.fit = std::make_shared<const Fit>(fit);
  CHECK(within_of(CostRanges(c), "device memory") == 1.02);  // at least
  c.memory.provenance.within = 1.5;
  CHECK(within_of(CostRanges(c), "device memory") == 1.5);
}

TEST_CASE("of ten draws of a cost, nine are within its range, as many above as below") {
  const Calibration c = *test::round_numbers().calibration;
  const CostRanges ranges(c);
  int below = 0, above = 0, same_side = 0;
  constexpr int draws = 2000;
  for (std::uint64_t seed = 0; seed < draws; ++seed) {
    const Calibration off = ranges.drawn(seed);
    const double gemm = off.gemms[0].beta / c.gemms[0].beta, memory = off.memory.alpha / c.memory.alpha;
    if (gemm < 1 / 1.3) ++below;
    if (gemm > 1.3) ++above;
    const double network = off.collectives[1].beta / c.collectives[1].beta;
    if ((gemm > 1) == (network > 1)) ++same_side;
    CHECK((std::isnan(memory) || memory > 0));
  }
  // 100 are expected on each side, with a standard deviation of 9.7; and 1000 on the same side, with 22.
  CHECK(below > 60);
  CHECK(below < 140);
  CHECK(above > 60);
  CHECK(above < 140);
  CHECK(same_side > 900);
  CHECK(same_side < 1100);
}

TEST_CASE("a draw follows from its seed and the names of the costs alone") {
  const Calibration c = *test::round_numbers().calibration;
  Calibration more = c;
  more.strided_copy = MemoryCost{Seconds(1e-6), SecondsPerByte(1e-12), {}};
  const Calibration a = CostRanges(c).drawn(7), b = CostRanges(more).drawn(7);
  CHECK(a.gemms[0].beta == b.gemms[0].beta);
  CHECK(a.collectives[0].beta == b.collectives[0].beta);
  CHECK(CostRanges(c).drawn(8).gemms[0].beta != a.gemms[0].beta);
}

TEST_CASE("interference is unsure in the time that an op loses, and never makes sharing worse than taking turns") {
  Calibration c = *test::round_numbers().calibration;
  c.interference = {{InterferenceClass::Compute, InterferenceClass::Inter, .8, .8, from(Origin::Assumed)}};
  const CostRanges ranges(c);
  // At .8 of its speed an op loses .25 of its time; twice that is .5, a speed of 2/3.
  const Calibration slow = ranges.at_end(index_of(ranges, "interference"), 1);
  CHECK(slow.interference[0].a_speed == Approx(2.0 / 3));
  CHECK(slow.interference[0].b_speed == Approx(2.0 / 3));
  // At .5 it loses 1, and twice that is 2, a speed of 1/3: together 2/3, so both are raised to .5.
  c.interference[0].a_speed = c.interference[0].b_speed = .5;
  const Calibration slowest = CostRanges(c).at_end(index_of(ranges, "interference"), 1);
  CHECK(slowest.interference[0].a_speed == Approx(.5));
  CHECK(slowest.interference[0].a_speed + slowest.interference[0].b_speed == Approx(1));
}
