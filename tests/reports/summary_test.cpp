// SPDX-License-Identifier: Apache-2.0
#include "reports/text/summary.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "models/results/ranking.hpp"
#include "reports/text/link_use.hpp"
#include "reports/text/window.hpp"
#include "tests/reports/sample_reports.hpp"

using namespace dovetail;
using namespace dovetail::reports;

TEST_CASE("speed-up is over the first result of the same kind, and the fastest has to fit") {
  const Report report = test::small_report();
  const auto rows = summarize(report);
  CHECK(*rows[0].speedup == 1);
  CHECK(*rows[1].speedup == Approx(1.25));
  CHECK(*rows[1].over_bound == Approx(8.0 / 6));
  CHECK(rows[1].expected == nullptr);
  CHECK(fastest(report)->system == "pipelined");
}

TEST_CASE("a measured result stands beside the modelled one of its system") {
  const Report report = test::small_run_report();
  const auto rows = summarize(report);
  CHECK(rows[1].expected == &report.results[0]);
  CHECK(*rows[1].measured_ratio == Approx(1.0125));
  CHECK(*rows[1].speedup == 1);
  CHECK_FALSE(rows[0].measured_ratio);
}

TEST_CASE("phases that interleave have no times of their own") {
  Report report = test::small_report();
  report.results[0].plan.micro_batches = 2;
  CHECK_FALSE(summarize(report)[0].forward);
  CHECK_FALSE(summarize(report)[0].backward);
}

TEST_CASE("a step of no length and a bound of zero give no ratio") {
  Report report = test::small_report();
  report.results[0].metrics.makespan = Seconds(0);
  report.results[1].lower_bound = Seconds(0);
  CHECK_FALSE(summarize(report)[0].speedup);
  CHECK_FALSE(summarize(report)[1].over_bound);
}

TEST_CASE("where no lower bound is known, a step is compared with its plan's bound") {
  Report report = test::small_report();
  CHECK_FALSE(summarize(report)[1].of_plan);
  report.results[1].metrics.makespan = Seconds(.006);
  report.results[1].lower_bound = Seconds(std::numeric_limits<double>::quiet_NaN());
  report.results[1].plan_bound = Seconds(.004);
  CHECK(summarize(report)[1].of_plan);
  CHECK(*summarize(report)[1].over_bound == Approx(1.5));
}

TEST_CASE("backward degrees that differ show their range") {
  Plan plan;
  plan.backward_degree = 3;
  CHECK(backward_degrees(plan) == "3");
  plan.backward_degrees = {4, 1, 2};
  CHECK(backward_degrees(plan) == "1..4");
  plan.backward_degrees = {2, 2};
  CHECK(backward_degrees(plan) == "2");
}

TEST_CASE("links: messages add up, overlapping use counts once") {
  const Report report = test::small_report();
  const auto uses = link_use(report.experiment, *report.results[1].schedule, report.results[1].timeline);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].link == LinkKind::Inter);
  CHECK(uses[0].bytes.value() == 4 * (1 << 20));
  CHECK(uses[0].busy.value() == Approx(3.2e-3));
  CHECK(uses[1].link == LinkKind::Intra);
  CHECK(uses[1].busy.value() == Approx(0.2e-3));

  Timeline overlapping = report.results[1].timeline;
  overlapping.ops[2] = overlapping.ops[1];
  CHECK(link_use(report.experiment, *report.results[1].schedule, overlapping)[0].busy.value() == Approx(2.4e-3));
}

TEST_CASE("the window worth looking at: last layer forward to the end of the layer before it backward") {
  const Report report = test::mixtral_report();
  const SystemResult& fsmoe = report.results.back();
  const Interval window = representative_window(*fsmoe.schedule, fsmoe.timeline);
  CHECK(window.start > Seconds(0));
  CHECK(window.start < fsmoe.metrics.forward);
  CHECK(window.finish > fsmoe.metrics.forward);
  CHECK(window.finish < fsmoe.metrics.makespan);

  const Report small = test::small_report();
  const SystemResult& one_layer = small.results[0];
  const Interval whole = representative_window(*one_layer.schedule, one_layer.timeline);
  CHECK(whole.start == Seconds(0));
  CHECK(whole.finish == one_layer.metrics.makespan);
}

TEST_CASE("results that the costs do not tell apart are a tie") {
  Report report = test::small_report();  // 10 and 8 ms that fit
  CHECK(tied_fastest(report).size() == 1);
  StepRange slow, fast;
  slow.draws.assign(20, 1.0);
  fast.draws.assign(20, 1.0);
  report.results[0].range = slow;
  report.results[1].range = fast;
  CHECK(tied_fastest(report).size() == 1);
  // In one draw of twenty the fast one takes 8 x 1.3 = 10.4 ms: slower in 19 of 20, which is sure.
  report.results[1].range->draws[0] = 1.3;
  CHECK(tied_fastest(report).size() == 1);
  report.results[1].range->draws[1] = 1.3;
  CHECK(tied_fastest(report).size() == 2);
  // If the slow one is slower in the same draws, its costs are the same and it stays behind: 13 ms against 10.4.
  report.results[0].range->draws[0] = report.results[0].range->draws[1] = 1.3;
  CHECK(tied_fastest(report).size() == 1);
}
