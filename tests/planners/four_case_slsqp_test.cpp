// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/four_case_slsqp.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

const std::vector<int> to_16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

PlanChoice plan_for(const Experiment& e, const Plan& base, const PlannerChoice& choices) {
  return find_planner(choices.name).choose({e, base, choices}, analytic_evaluator(e));
}

Plan co_scheduled(GradSync sync) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.comm_streams = CommStreams::InterIntra;
  plan.grad_sync = sync;
  return plan;
}

}  // namespace

#if DOVETAIL_HAS_NLOPT

// With G = S the paper's times are exact, so what is lost is lost in solving and rounding.
TEST_CASE("four_case_slsqp: its degree is within 2 % of the best one where the paper's times are exact") {
  std::mt19937 engine(17);
  int best_found = 0;
  double sum = 0, most = 0;
  constexpr int cases = 4'000;
  for (int i = 0; i < cases; ++i) {
    MoeTimes t = test::random_moe(engine);
    t.reduce_scatter = t.all_gather;
    const Seconds R(i % 2 == 0 ? 0 : test::real(engine, 0, 3));
    const DegreeChoice slsqp = slsqp_degree(t, R, to_16), exact = best_degree(t, CommStreams::InterIntra, R, 16);
    REQUIRE(exact_makespan(t, CommStreams::InterIntra, slsqp.degree, R).value() == Approx(slsqp.time.value()));
    const double regret = slsqp.time / exact.time - 1;
    REQUIRE(regret > -1e-12);
    best_found += regret < 1e-9 ? 1 : 0;
    sum += regret;
    most = std::max(most, regret);
  }
  INFO(best_found << " of " << cases << ", mean " << sum / cases << ", most " << most);
  CHECK(best_found > .9 * cases);
  CHECK(sum / cases < .002);
  CHECK(most < .02);
}

TEST_CASE("four_case_slsqp rounds to the candidates around its real degree") {
  // T2 = 2A + G + S + rE = 2 (1 + 16/r) + r + 64, least at r = sqrt(32) = 5.7: 2 + 32/r + r is 13.4 at 5, 13.33 at 6.
  const MoeTimes t{{Seconds(1), Seconds(16)}, {}, {}, {Seconds(1), Seconds(64)}};
  CHECK(slsqp_degree(t, Seconds(0), to_16).degree == 6);
  CHECK(slsqp_degree(t, Seconds(0), std::vector{1, 5, 16}).degree == 5);  // 16 gives 20
  CHECK(slsqp_degree(t, Seconds(0), std::vector{1, 2, 8}).degree == 8);   // 14, 2 gives 20
  CHECK(slsqp_degree(t, Seconds(0), std::vector{8, 16}).degree == 8);
  CHECK(slsqp_degree(t, Seconds(0), std::vector{2}).degree == 2);
}

TEST_CASE("four_case_slsqp plans like four_case, alone and a little worse") {
  std::mt19937 engine(5);
  double sum = 0, most = 0;
  constexpr int cases = 100;
  for (int i = 0; i < cases; ++i) {
    Experiment e = test::testbed_b(test::integer(engine, 1, 5));
    test::scale_costs(e.calibration.edit(), engine);
    e.workload.sequence = 1024;
    const Plan base = co_scheduled(i % 3 == 0 ? GradSync::After : GradSync::Partitioned);
    const bool tied = i % 4 == 0;
    const PlanChoice paper = plan_for(e, base, {"four_case_slsqp", to_16, tied});
    const PlanChoice ours = plan_for(e, base, {"four_case", to_16, tied});
    if (tied) CHECK(paper.plan.forward_degree == paper.plan.backward_degree);
    CHECK(paper.report.evaluations <= 6);  // one plan, or two tied degrees in three ways to slice
    const Evaluator evaluate = analytic_evaluator(e);
    const double regret = evaluate(paper.plan) / evaluate(ours.plan) - 1;
    if (regret < -1e-6) FAIL("case " << i << ": four_case is " << -regret << " worse");
    sum += regret;
    most = std::max(most, regret);
  }
  INFO("mean " << sum / cases << ", most " << most);
  CHECK(sum / cases < .01);
  CHECK(most < .1);
}

TEST_CASE("four_case_slsqp knows co-scheduled streams alone") {
  const Experiment e = test::testbed_b(2);
  Plan base = co_scheduled(GradSync::After);
  base.comm_streams = CommStreams::One;
  CHECK_THROWS_WITH(plan_for(e, base, {"four_case_slsqp", {1, 2}, false}),
                    Catch::Contains("one contradicts the planner"));
}

#else

TEST_CASE("four_case_slsqp is not in a build without NLopt, and says so") {
  const Experiment e = test::testbed_b(2);
  CHECK_THROWS_WITH(plan_for(e, co_scheduled(GradSync::After), {"four_case_slsqp", to_16, false}),
                    Catch::Contains("planner four_case_slsqp: not in this build"));
}

#endif
