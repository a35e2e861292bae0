// SPDX-License-Identifier: Apache-2.0
// Launches of the host: how many there are, what they make of a step, and what graphs take away.
#include "models/schedule/launches.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/host_profile.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

Plan with(Graphs graphs, int degree = 1) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = degree;
  plan.graphs = graphs;
  return plan;
}

// A host that takes a second for each launch, and nothing else.
double launches(const Experiment& e, const Plan& plan) {
  const auto all = host_times(build_schedule(e, plan), {}, {Seconds(1)});
  return std::reduce(all.begin(), all.end()).value();
}

Seconds step(const Experiment& e, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(price_plan(e, plan), scratch);
}

// 8 rows of each rank for an expert, so that there may be 8 chunks, and kernels and messages that take about 1 us.
Experiment small_kernels(Seconds launch) {
  Experiment e = test::round_numbers();
  e.workload.sequence = 32;
  Calibration& c = e.calibration.edit();
  for (CollectiveCost& cost : c.collectives) cost.alpha = Seconds(0);
  c.gemms.front().alpha = Seconds(0);
  c.gemms.front().beta = SecondsPerFlop(1e-10);
  if (launch > Seconds(0)) c.host = HostCost{launch, {}};
  return e;
}

}  // namespace

// Forward: gather and scatter of attention 1 + 1, attention 3 products and kernels + 3 small ones, gate 1 + 6,
// encode 2, two all-to-alls and gather and scatter of the experts 4, experts 2 + 1, decode 2: 26.
// Backward: the same 6 exchanges, attention 5 + 2 + 4, gate 2 + 5, encode 1, experts 4 + 1, decode 2: 32; and the
// all-reduce and the update.
TEST_CASE("The host launches each product, each exchange and the small kernels of each op") {
  const Experiment e = small_kernels(Seconds(0));
  CHECK(launches(e, with(Graphs::None)) == 26 + 32 + 2);
  // A chunk more: 4 exchanges and 3 kernels forward, 4 and 5 backward.
  CHECK(launches(e, with(Graphs::None, 8)) == 60 + 7 * (7 + 9));
}

// Attention with its gather and scatter is 1 + 6 + 1 launches forward and 1 + 11 + 1 backward; the gate is 7 and 7.
TEST_CASE("Ops that follow one another in a graph are one launch") {
  const Experiment e = small_kernels(Seconds(0));
  CHECK(launches(e, with(Graphs::Attention)) == 60 - (8 - 1) - (13 - 1));
  CHECK(launches(e, with(Graphs::Router)) == 60 - (8 + 7 - 1) - (13 + 7 - 1));
  CHECK(launches(e, with(Graphs::All)) == 1);
  Plan waiting = with(Graphs::Attention);
  waiting.host_sync = true;
  CHECK(launches(e, waiting) == launches(e, with(Graphs::Attention)));  // a wait launches nothing
}

TEST_CASE("A step of small kernels takes what the host takes for its launches") {
  const Experiment e = small_kernels(Seconds(1e-3));
  // The update, which takes no time, is the last of 60 launches of 1 ms; everything else has long ended.
  const PricedSchedule priced = price_plan(e, with(Graphs::None));
  const Timeline timeline = AnalyticBackend().run(priced);
  CHECK(metrics(*priced.schedule, timeline).makespan.value() == Approx(60e-3));
  CHECK(plan_bound(priced).value() == Approx(60e-3));
  CHECK(launch_bound(*priced.schedule, timeline).value() > 59e-3);
}

TEST_CASE("Chunks that hide communication do not pay where the host is slow, unless the step is captured") {
  const Experiment fast = small_kernels(Seconds(0)), slow = small_kernels(Seconds(1e-6));
  CHECK(step(fast, with(Graphs::None, 8)) < step(fast, with(Graphs::None, 1)));
  CHECK(step(slow, with(Graphs::None, 8)) > step(slow, with(Graphs::None, 1)));
  CHECK(step(slow, with(Graphs::None, 8)).value() >= 172e-6);  // 172 launches
  CHECK(step(slow, with(Graphs::All, 8)) < step(slow, with(Graphs::All, 1)));
  CHECK(step(slow, with(Graphs::All, 8)).value() == Approx(step(fast, with(Graphs::None, 8)).value() + 1e-6));
}

// Without the host's time a wait costs the launch after it, which is the alpha of a product: 1 ms, four times.
TEST_CASE("A host that waits pays with its own time where it has one") {
  Experiment e = test::round_numbers();
  Plan waiting = with(Graphs::None);
  const Seconds without = step(e, waiting);
  waiting.host_sync = true;
  CHECK((step(e, waiting) - without).value() == Approx(4e-3));
  e.calibration.edit().host = HostCost{Seconds(1e-9), {}};
  CHECK((step(e, waiting) - without).value() < 1e-6);
}

TEST_CASE("A captured step has no host that waits and no sizes that follow the routing") {
  Experiment e = test::round_numbers();
  Plan plan = with(Graphs::All);
  CHECK_NOTHROW(validate(plan, e));
  e.workload.capacity_factor = 0;
  resolve_capacity(e);
  CHECK_THROWS_WITH(validate(plan, e), Contains("all contradicts workload.capacity_factor 0"));
  CHECK_NOTHROW(validate(with(Graphs::Router), e));
  e = test::round_numbers();
  plan.host_sync = true;
  CHECK_THROWS_WITH(validate(plan, e), Contains("all contradicts plan.host_sync"));
}
