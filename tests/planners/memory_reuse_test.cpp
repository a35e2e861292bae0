// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/overlap.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/closed_form/restore_cost.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"

using namespace dovetail;
using namespace dovetail::planners;
using Catch::Matchers::Contains;

namespace {

Plan plan_of(int degree, Restore restore, Buffers buffers) {
  Plan p;
  p.scope = Scope::Moe;
  p.forward_degree = p.backward_degree = degree;
  p.order = Order::Alternate;
  p.comm_streams = CommStreams::DispatchCombine;
  p.restore = restore;
  p.buffers = restore == Restore::Keep ? Buffers::PerChunk : buffers;
  return p;
}

PlanChoice choose(const Experiment& e, const Plan& base, const std::vector<int>& degrees) {
  return find_planner("memory_reuse").choose({e, base, {"memory_reuse", degrees, true}}, analytic_evaluator(e));
}

// One layer of an ffn with H = 4M on 4 ranks; no latencies. A GEMM of all rows takes 1 s, an exchange of them
// `communication`, a copy `copy`.
Experiment unit_costs(double communication, double copy) {
  Experiment e = test::round_numbers();
  e.cluster.nodes = 4;
  e.cluster.gpus_per_node = 1;
  e.model.expert_hidden = 32;
  e.workload.sequence = 64;
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  const double rows = 64 * 2;  // f 1, k 2
  for (CollectiveCost& c : e.calibration.edit().collectives)
    c.alpha = {}, c.beta = SecondsPerByte(communication / (rows * 32));
  e.calibration.edit().gemms.front() = {DType::Fp32, {}, SecondsPerFlop(1 / (2 * rows * 8 * 32)), {}};
  e.calibration.edit().copy = MemoryCost{{}, SecondsPerByte(copy / (rows * 32)), {}};
  return e;
}

double cost(const Experiment& e, Restore restore) {
  return restore_cost(price_plan(e, plan_of(4, restore, Buffers::Double)), interference_of(e)).value();
}

}  // namespace

TEST_CASE("peak_memory is that of the analytic timeline") {
  const Experiment e = test::testbed_b(3);
  const PricedSchedule p = price_plan(e, plan_of(4, Restore::S4, Buffers::Double));
  CHECK(peak_memory(e, plan_of(4, Restore::S4, Buffers::Double)) ==
        memory_use(*p.schedule, AnalyticBackend().run(p)).peak);
}

// Table II: [compute, communication, copy] forward and backward: keep 2,2,0 4,2,0; s1 2,2,5 4,2,5; s2 2,2,4 4,3,4;
// s3 2,2,1 5,2,1; s4 2,2,0 5,3,0.
TEST_CASE("equation 10: the slowest of Table II's works in each pass") {
  const Experiment compute = unit_costs(.1, .1);  // copies: 5 x .1 at most
  CHECK(cost(compute, Restore::Keep) == Approx(2 + 4));
  CHECK(cost(compute, Restore::S1) == Approx(2 + 4));
  CHECK(cost(compute, Restore::S2) == Approx(2 + 4));
  CHECK(cost(compute, Restore::S3) == Approx(2 + 5));
  CHECK(cost(compute, Restore::S4) == Approx(2 + 5));
  const Experiment network = unit_costs(3, 1);
  CHECK(cost(network, Restore::Keep) == Approx(2 * 3 + 2 * 3));
  CHECK(cost(network, Restore::S1) == Approx(2 * 3 + 2 * 3));
  CHECK(cost(network, Restore::S2) == Approx(2 * 3 + 3 * 3));
  CHECK(cost(network, Restore::S3) == Approx(2 * 3 + 2 * 3));
  CHECK(cost(network, Restore::S4) == Approx(2 * 3 + 3 * 3));
  const Experiment copies = unit_costs(.1, 2);
  CHECK(cost(copies, Restore::S1) == Approx(5 * 2 + 5 * 2));
  CHECK(cost(copies, Restore::S2) == Approx(4 * 2 + 4 * 2));
  CHECK(cost(copies, Restore::S3) == Approx(2 + 5));
}

TEST_CASE("equation 10: mu beside compute, mu_all and eta_all where copies run too") {
  Experiment e = unit_costs(3, 1);
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 1, .75, {}},
                                       {InterferenceClass::Inter, InterferenceClass::Copy, .5, .8, {}}};
  CHECK(cost(e, Restore::Keep) == Approx((2 * 3 + 2 * 3) / .75));
  CHECK(cost(e, Restore::S4) == Approx((2 * 3 + 3 * 3) / .75));
  CHECK(cost(e, Restore::S1) == Approx(2 * 3 / .5 + 2 * 3 / .5));  // copies: 5 / .8
  CHECK(cost(e, Restore::S3) == Approx(2 * 3 / .5 + 2 * 3 / .5));
  // While all three run, which they do not in S4, communication keeps .4.
  e.calibration.edit().interference.push_back({InterferenceClass::Compute, InterferenceClass::Inter, 1, .4, {}});
  e.calibration.edit().interference.back().c = KeptSpeed{InterferenceClass::Copy, .9};
  CHECK(cost(e, Restore::S4) == Approx((2 * 3 + 3 * 3) / .75));
  CHECK(cost(e, Restore::S1) == Approx(2 * 3 / .4 + 2 * 3 / .4));
}

TEST_CASE("memory_reuse: the fastest plan that fits, as trying all of them says") {
  std::mt19937 engine(23);
  int none = 0, restored = 0;
  for (int i = 0; i < test::cases(1000); ++i) {
    Experiment e = test::testbed_b(test::integer(engine, 1, 3));
    e.calibration.edit().copy = MemoryCost{Seconds(1e-5), SecondsPerByte(79e-12), {}};
    test::scale_costs(e.calibration.edit(), engine);
    if (i % 2 == 0)
      e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 1, .8, {}},
                                           {InterferenceClass::Inter, InterferenceClass::Copy, .5, .8, {}}};
    e.workload.sequence = 1024 * test::integer(engine, 1, 8);
    const Evaluator evaluate = analytic_evaluator(e);
    struct Tried {
      double time;
      Bytes peak;
    };
    std::vector<Tried> all;
    const bool keeps = i % 3 != 0;
    for (const auto& [name, restore] : restore_names)
      for (int degree : {1, 2, 4}) {
        const Plan plan = plan_of(degree, restore, Buffers::Double);
        if ((restore != Restore::Keep || keeps) && !refusal(plan, e))
          all.push_back({evaluate(plan).value(), peak_memory(e, plan)});
      }
    const auto [low, high] = std::ranges::minmax(all, {}, &Tried::peak);
    e.cluster.device.memory = low.peak + (high.peak - low.peak) * test::real(engine, -.1, 1.1);
    double best = 1e300;
    for (const Tried& t : all)
      if (t.peak <= e.cluster.device.memory) best = std::min(best, t.time);

    const PlanChoice choice = choose(e, plan_of(1, keeps ? Restore::Keep : Restore::S4, Buffers::Double), {1, 2, 4});
    INFO("case " << i << ": " << choice.report.reason);
    if (best == 1e300) {
      ++none;
      REQUIRE(peak_memory(e, choice.plan) == low.peak);
      REQUIRE_THAT(choice.report.reason, Contains("no plan fits"));
      continue;
    }
    restored += choice.plan.restore != Restore::Keep;
    REQUIRE(peak_memory(e, choice.plan) <= e.cluster.device.memory);
    REQUIRE(analytic_evaluator(e)(choice.plan).value() == Approx(best));
    REQUIRE_THAT(choice.report.reason, Contains("equation 10 picks"));
  }
  CHECK(none > 5);
  CHECK(restored > 50);
}

TEST_CASE("memory_reuse: what does not fit says by how much, and what would") {
  Experiment e = test::testbed_b(2);
  e.calibration.edit().copy = MemoryCost{Seconds(1e-5), SecondsPerByte(79e-12), {}};
  e.workload.sequence = 8192;
  const Plan base = plan_of(1, Restore::Keep, Buffers::PerChunk);
  const auto least = [&](int degree) {
    Bytes peak(1e300);
    for (const auto& [name, restore] : restore_names)
      peak = std::min(peak, peak_memory(e, plan_of(degree, restore, Buffers::Double)));
    return peak;
  };
  REQUIRE(least(8) < least(2));
  e.cluster.device.memory = least(8);
  const PlanChoice chunks = choose(e, base, {1, 2});
  INFO(chunks.report.reason);
  CHECK_THAT(chunks.report.reason, Contains("would fit") && Contains("degree"));
  CHECK_THAT(chunks.report.reason,
             Contains(std::to_string(static_cast<long>((least(2) - e.cluster.device.memory).value())) + " bytes"));
  const Bytes states = memory_use(*price_plan(e, base).schedule, AnalyticBackend().run(price_plan(e, base))).persistent;
  e.cluster.device.memory = states + (least(8) - states) / 4;
  const PlanChoice tokens = choose(e, base, {1, 2});
  INFO(tokens.report.reason);
  CHECK_THAT(tokens.report.reason, Contains("batch 1 with sequence") && Contains("would fit"));
  e.cluster.device.memory = states / 2;
  CHECK_THAT(choose(e, base, {1, 2}).report.reason, Contains("neither up to 256 chunks nor fewer tokens"));
}

TEST_CASE("memory_reuse: without a copy cost only what needs no copies, forward only as the base plan says") {
  Experiment e = test::testbed_b(2);
  const Plan base = plan_of(1, Restore::Keep, Buffers::PerChunk);
  CHECK(choose(e, base, {1, 2}).report.evaluations == 2 * 2);  // keep and s4
  e.workload.phases = Phases::ForwardOnly;
  const PlanChoice forward = choose(e, base, {1, 2});
  CHECK(forward.report.evaluations == 2);
  CHECK(forward.plan.restore == Restore::Keep);
}
