// SPDX-License-Identifier: Apache-2.0
// Backward ops in halves: what they do together, and where they stand.
#include "models/schedule/halves.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "models/schedule/op_table.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

// An experiment and a plan that runs its micro-batches by zb_h1.
std::pair<Experiment, Plan> in_halves(test::Random& random) {
  for (;;) {
    const Experiment e = test::random_experiment(random);
    Plan plan = test::random_plan(random, e);
    plan.pipeline_schedule = pipeline_schedule("zb_h1");
    plan.virtual_stages = 1;
    if (e.workload.phases == Phases::Training && !test::refusal(plan, e)) return {e, plan};
  }
}

// By kind, layer, micro-batch, chunk and shadowed expert.
using OpPlace = std::tuple<OpKind, int, int, int, int>;
OpPlace op_place(const Op& op) {
  return {op.kind, op.layer, op.micro_batch, op.chunk, op.expert};
}

struct WorkSum {
  double flops = 0;
  int gemms = 0;
};
std::map<OpPlace, WorkSum> backward_work(const Schedule& s) {
  std::map<OpPlace, WorkSum> sums;
  for (const Op& op : s.ops) {
    if (op.phase != Phase::Backward || !has_halves(op.kind) || op.kernel() == nullptr) continue;
    WorkSum& sum = sums[op_place(op)];
    sum.flops += op.flops().value();
    sum.gemms += op.kernel()->gemms;
  }
  return sums;
}

}  // namespace

TEST_CASE("The halves of an op do the work of the whole one, and that of the weights comes later") {
  for (int seed = 1; seed <= test::cases(60); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    auto [e, plan] = in_halves(random);
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const Schedule halves = build_step(e, plan);
    CHECK_NOTHROW(validate(halves));
    plan.pipeline_schedule = pipeline_schedule("1f1b");
    const std::map<OpPlace, WorkSum> whole = backward_work(build_step(e, plan)), both = backward_work(halves);
    REQUIRE(whole.size() == both.size());
    for (const auto& [place, sum] : whole) {
      CHECK(both.at(place).flops == Approx(sum.flops));
      CHECK(both.at(place).gemms == sum.gemms);
    }
    std::map<OpPlace, std::vector<Half>> seen;
    for (const Op& op : halves.ops)
      if (op.phase == Phase::Backward && has_halves(op.kind)) seen[op_place(op)].push_back(op.half);
    for (const auto& [place, order] : seen) {  // latent attention projects twice
      CHECK(std::ranges::is_sorted(order));
      CHECK(std::ranges::count(order, Half::Inputs) == std::ranges::count(order, Half::Weights));
      CHECK(std::ranges::count(order, Half::Both) == 0);
    }
  }
}

TEST_CASE("Attention, its projections, experts and feed-forward parts have halves") {
  std::vector<std::string_view> names;
  for (const OpEntry& entry : op_table)
    if (has_halves(entry.kind)) names.push_back(entry.name);
  std::ranges::sort(names);
  CHECK(names == std::vector<std::string_view>{"attention", "dense_ffn", "expert", "projection"});
}

TEST_CASE("A micro-batch that turns at the last rank is sent by nobody there") {
  test::Random random(1);
  Experiment e = test::random_experiment(random);
  for (Plan plan;; e = test::random_experiment(random)) {
    if (e.parallelism.pp < 2 || e.workload.phases != Phases::Training) continue;
    plan.pipeline_schedule = pipeline_schedule("zb_v");
    plan.virtual_stages = 2;
    if (test::refusal(plan, e)) continue;
    const Schedule s = build_step(e, plan);
    validate(s);
    // p - 1 borders on the way down and on the way up, each passed forward and backward.
    CHECK(std::ranges::count(s.ops, OpKind::StageSend, &Op::kind) == 4 * (e.parallelism.pp - 1));
    for (const Op& op : s.ops)
      if (op.kind == OpKind::StageSend) CHECK(std::abs(s.ends_of(op).sender - s.ends_of(op).receiver) == 1);
    break;
  }
}
