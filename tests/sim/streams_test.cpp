// SPDX-License-Identifier: Apache-2.0
// Streams that overlap on paper share the link below them.
#include <catch2/catch.hpp>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "sim/simgrid_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

TEST_CASE("dispatch and combine on two streams share one link") {
  Experiment e = test::round_numbers();
  e.workload.phases = Phases::ForwardOnly;
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  for (CollectiveCost& cost : e.calibration.edit().collectives) cost.alpha = Seconds(0);
  e.calibration.edit().gemms[0] = {DType::Fp32, Seconds(0), SecondsPerFlop(0), {}};
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.order = Order::Alternate;
  plan.comm_streams = CommStreams::DispatchCombine;
  const PricedSchedule priced = price_plan(e, plan);
  const auto makespan = [&](Backend& backend) { return metrics(*priced.schedule, backend.run(priced)).makespan; };
  // C = 8 rows; an all-to-all of 4 rows takes t = 4 x 4 experts x 8 x 4 bytes x 1 ns.
  const Seconds t = Seconds(512e-9);
  AnalyticBackend analytic;
  sim::SimGridBackend simgrid;
  // Alone they could: dispatch.0, then dispatch.1 beside combine.0, then combine.1. But dispatch.1 and combine.0 beside
  // each other take twice as long, so that all four take as long as on one stream.
  CHECK(makespan(analytic) / t == Approx(4));
  CHECK(makespan(simgrid) / t == Approx(4));
}
