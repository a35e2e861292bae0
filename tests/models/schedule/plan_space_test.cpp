// SPDX-License-Identifier: Apache-2.0
// Thousands of plans drawn over the whole space: each is refused with its reason, or it builds and keeps the
// invariants.
#include <catch2/catch.hpp>
#include <map>

#include "models/base/names.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// The part of a plan that decides how many rows and flops there are at all.
Plan sequential(const Plan& plan) {
  Plan p;
  p.micro_batches = plan.micro_batches;
  p.pad_messages = plan.pad_messages;
  p.encoding = plan.encoding;
  p.layout = plan.layout;
  p.expert_sharding = plan.expert_sharding;
  p.sharding_repeats = plan.sharding_repeats;
  p.shadowed_experts = plan.shadowed_experts;
  p.pipeline_schedule = plan.pipeline_schedule;
  p.program = plan.program;
  p.virtual_stages = plan.virtual_stages;
  return p;
}

double flops(const Schedule& s, std::initializer_list<OpKind> kinds) {
  double sum = 0;
  for (const Op& op : s.ops)
    if (!op.recomputed && std::ranges::find(kinds, op.kind) != kinds.end())
      sum += op.flops().value() * s.classes[static_cast<std::size_t>(s.streams[op.stream].rank_class)].ranks;
  return sum;
}

std::int64_t reduced_gradients(const Schedule& s, OpKind kind) {
  double bytes = 0;
  for (const Op& op : s.ops)
    if (op.kind == kind)
      bytes += op.message().value() * s.classes[static_cast<std::size_t>(s.streams[op.stream].rank_class)].ranks;
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

TEST_CASE("random plans are refused with the knob, or build, keep their work and stay above their bounds") {
  Random random(20);
  int legal = 0, drawn = 0;
  std::map<std::string, int> reasons;
  while (legal < 3000 && drawn < 2'000'000) {
    const Experiment e = random_experiment(random);
    for (int i = 0; i < 20; ++i, ++drawn) {
      const Plan plan = random_plan(random, e);
      if (const auto reason = refusal(plan, e)) {
        REQUIRE(reason->starts_with("/plan/"));
        ++reasons[reason->substr(0, reason->find(':'))];
        continue;
      }
      ++legal;
      INFO(describe(e, plan));
      const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
      REQUIRE_NOTHROW(validate(*schedule));
      const Schedule plain = build_schedule(e, sequential(plan));
      for (const auto& kinds : {std::initializer_list<OpKind>{OpKind::Attention, OpKind::Projection}, {OpKind::Gate}})
        REQUIRE(flops(*schedule, kinds) == Approx(flops(plain, kinds)).epsilon(1e-9));
      const double experts = flops(*schedule, {OpKind::Expert}), unpadded = flops(plain, {OpKind::Expert});
      if (plan.row_tile <= 1)
        REQUIRE(experts == Approx(unpadded).epsilon(1e-9));
      else  // at most row_tile times the rows, where each GEMM has one
        REQUIRE((experts >= unpadded * (1 - 1e-9) && experts <= unpadded * plan.row_tile * (1 + 1e-9)));
      REQUIRE(reduced_gradients(*schedule, OpKind::DenseGradientAllReduce) ==
              reduced_gradients(plain, OpKind::DenseGradientAllReduce));
      const PricedSchedule priced = price(schedule, e);
      std::vector<double> scratch;
      const Seconds makespan = analytic_makespan(priced, scratch);
      REQUIRE(makespan >= plan_bound(priced) * (1 - 1e-12));
      REQUIRE(makespan >= lower_bound(priced) * (1 - 1e-12));
    }
  }
  for (const auto& [knob, count] : reasons) UNSCOPED_INFO(knob << " refused " << count);
  CHECK(legal >= 3000);
}
