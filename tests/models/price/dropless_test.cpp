// SPDX-License-Identifier: Apache-2.0
// Messages as large as what is routed, and experts on their own rows: counts, sizes and work by hand.
#include <algorithm>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/network/rank_flows.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

// Each rank has 16 choices: 8 of its 8 tokens choose expert 3; 3, 3 and 2 the others. So C is 8, where nothing is
// dropped. Member 0 of two has experts 0 and 1. Two shards of each have the rows of 2 x 2 ranks.
Experiment hot_expert() {
  Experiment e = test::round_numbers();
  e.workload.capacity_factor = 0;
  e.workload.routing.kind = RoutingKind::Hot;
  e.workload.routing.hot_expert = 3;
  e.workload.routing.hot_share = .5;
  e.workload.message_sizes = MessageSizes::Routed;
  resolve_capacity(e);
  return e;
}

Plan grouped(int row_tile = 0) {
  Plan plan;
  plan.expert_kernel = ExpertKernel::Grouped;
  plan.row_tile = row_tile;
  return plan;
}

// Seconds that the first op of a kind takes beside its fixed time.
double busy(const PricedSchedule& p, OpKind kind, Phase phase = Phase::Forward) {
  for (const OpId i : p.schedule->ops.ids())
    if (const Op& op = p.schedule->ops[i]; op.kind == kind && op.phase == phase)
      return (p.duration[i] - p.fixed[i]).value();
  FAIL("no such op");
  return 0;
}

constexpr double rows_of_all = 2 * 4 * 8;       // of two experts on a rank: 4 ranks with room for 8 rows each
constexpr double flops_of_row = 2 * 2 * 8 * 8;  // two products of M 8 by S 8

}  // namespace

TEST_CASE("Without a network, routed ops take the time of the rank that has most rows") {
  REQUIRE(layer_volumes(hot_expert()).capacity == 8);
  const PricedSchedule p = price_plan(hot_expert(), grouped());
  const double padded = 4 * 8 * 8 * 4e-9;  // E C M elements of 4 bytes
  // A rank sends 16 of 32 rows; to member 1 come 2 + 8 of 16 from each.
  CHECK(busy(p, OpKind::Dispatch) == Approx(padded * 10 / 16));
  CHECK(busy(p, OpKind::Combine) == Approx(padded * 10 / 16));
  CHECK(busy(p, OpKind::Combine, Phase::Backward) == Approx(padded * 10 / 16));
  CHECK(busy(p, OpKind::EspAllGather) == Approx(2 * padded * 10 / 16));
  CHECK(busy(p, OpKind::Expert) == Approx(rows_of_all * 10 / 16 * flops_of_row * 1e-12));
  CHECK(busy(p, OpKind::Expert, Phase::Backward) == Approx(2 * rows_of_all * 10 / 16 * flops_of_row * 1e-12));
}

TEST_CASE("A grouped kernel rounds the rows of each expert up to a tile, a batched one pads them to the capacity") {
  // Member 1: 4 x 2 = 8 rows of expert 2 make one tile of 12, and 4 x 8 = 32 rows of expert 3 make three.
  const PricedSchedule tiled = price_plan(hot_expert(), grouped(12));
  CHECK(busy(tiled, OpKind::Expert) == Approx((12 + 36) * flops_of_row * 1e-12));
  const PricedSchedule batched = price_plan(hot_expert(), Plan());
  CHECK(busy(batched, OpKind::Expert) == Approx(rows_of_all * flops_of_row * 1e-12));
  CHECK(busy(batched, OpKind::Dispatch) == busy(tiled, OpKind::Dispatch));
}

TEST_CASE("Tensors hold the rows that are there, on the rank that has most") {
  const auto held = [](const Plan& plan, TensorKind kind) {
    const Schedule s = build_schedule(hot_expert(), plan);
    const auto t = std::ranges::find(s.tensors, kind, &Tensor::kind);
    REQUIRE(t != s.tensors.end());
    CHECK(t->bytes().value() == Approx(t->held * static_cast<double>(t->elements) * 4));
    return t->held;
  };
  CHECK(held(grouped(), TensorKind::Encoded) == Approx(16. / 32));
  CHECK(held(grouped(), TensorKind::Combined) == Approx(16. / 32));
  CHECK(held(grouped(), TensorKind::Dispatched) == Approx(10. / 16));
  CHECK(held(grouped(), TensorKind::Hidden) == Approx(10. / 16));
  CHECK(held(grouped(12), TensorKind::Hidden) == Approx(48. / 72));
  CHECK(held(Plan(), TensorKind::Hidden) == 1);
  CHECK(held(Plan(), TensorKind::Encoded) == Approx(16. / 32));
  CHECK(held(grouped(), TensorKind::MoeInput) == 1);
}

TEST_CASE("Chunks of a grouped kernel have the rows that fall into them") {
  Plan plan = grouped();
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  const PricedSchedule p = price_plan(hot_expert(), plan);
  std::vector<double> rows;
  for (const OpId i : p.schedule->ops.ids())
    if (const Op& op = p.schedule->ops[i]; op.kind == OpKind::Expert && op.phase == Phase::Forward)
      rows.push_back((p.duration[i] - p.fixed[i]).value() / (flops_of_row * 1e-12));
  // Slots 0 to 3 of experts 2 and 3: 2 and 4 of each rank. Slots 4 to 7: 0 and 4.
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == Approx(4 * 6));
  CHECK(rows[1] == Approx(4 * 4));
}

TEST_CASE("Counts are exchanged before rows, then gathered over shards, and the host waits for them") {
  const PricedSchedule p = price_plan(hot_expert(), grouped());
  const Schedule& s = *p.schedule;
  validate(s);
  CHECK(busy(p, OpKind::ExchangeCounts) == Approx(4 * 4e-9));  // an fp32 number for each of 4 experts
  std::vector<OpId> counts;
  OpId wait, dispatch;
  for (const OpId i : s.ops.ids()) {
    if (s.ops[i].kind == OpKind::ExchangeCounts) counts.push_back(i);
    if (s.ops[i].kind == OpKind::HostSync) wait = i;
    if (s.ops[i].kind == OpKind::Dispatch && !dispatch.exists()) dispatch = i;
  }
  REQUIRE(counts.size() == 2);
  CHECK(s.ops[counts[0]].collective() == Collective::AllToAll);
  CHECK(s.ops[counts[1]].collective() == Collective::AllGather);
  CHECK(s.ops[counts[1]].message() == Bytes(2 * 4 * 4));
  REQUIRE(wait.exists());
  const auto waits_for = [&](OpId op, OpId before) {
    const auto all = s.dependencies_of(s.ops[op]);
    const bool follows = before < op && s.ops[before].stream == s.ops[op].stream;
    return follows || std::ranges::find(all, before) != all.end();
  };
  CHECK(waits_for(wait, counts[1]));
  CHECK(waits_for(dispatch, wait));
}

TEST_CASE("Uniform routing in a grouped kernel is a batched one with a capacity factor of 1") {
  Experiment dropless = test::round_numbers(2);  // C 4 = 2 x 8 / 4 for each expert, which uniform routing fills
  Experiment padded = dropless;
  dropless.workload.capacity_factor = 0;
  dropless.workload.routing.kind = RoutingKind::Uniform;
  dropless.workload.message_sizes = MessageSizes::Routed;
  resolve_capacity(dropless);
  const PricedSchedule own = price_plan(dropless, grouped()), same = price_plan(padded, Plan());
  std::size_t at = 0;
  for (const OpId i : own.schedule->ops.ids()) {
    const OpKind kind = own.schedule->ops[i].kind;
    if (kind == OpKind::ExchangeCounts || kind == OpKind::HostSync) continue;
    const OpId other(at++);
    REQUIRE(other < same.schedule->ops.size());
    CHECK(same.schedule->ops[other].kind == kind);
    CHECK(own.duration[i].value() == Approx(same.duration[other].value()));
    CHECK(own.schedule->ops[i].flops() == same.schedule->ops[other].flops());
  }
  CHECK(at == same.schedule->ops.size());
}

TEST_CASE("Flows of a routed exchange have the bytes of its rows") {
  const Experiment e = hot_expert();
  const Schedule s = build_schedule(e, grouped());
  const RankFlows flows(e, s);
  const auto first = std::ranges::find(s.ops, OpKind::Dispatch, &Op::kind);
  double sent = 0;
  for (const RankFlow& flow : flows.of(*first)) sent += flow.bytes.value();
  // Members 0 send 2 + 8 rows of 8 fp32 numbers to the other one, members 1 send 3 + 3 rows; there are two of each.
  CHECK(sent == 2 * (10 + 6) * 8 * 4);
  const auto counts = std::ranges::find(s.ops, OpKind::ExchangeCounts, &Op::kind);
  sent = 0;
  for (const RankFlow& flow : flows.of(*counts)) sent += flow.bytes.value();
  CHECK(sent == 4 * 2 * 4);  // each of 4 ranks: counts for the two experts of one other
}

TEST_CASE("Stages of a pipeline exchange their own counts") {
  Experiment e = hot_expert();
  e.cluster.nodes = 4;
  e.parallelism.pp = 2;
  e.model.layers = e.workload.layers = 2;
  e.workload.batch = 2;
  resolve_capacity(e);
  Plan plan = grouped(4);
  plan.micro_batches = 2;
  const PricedSchedule p = price_plan(e, plan);
  validate(*p.schedule);
  CHECK(std::ranges::count(p.schedule->ops, OpKind::HostSync, &Op::kind) == 2 * 2);
  CHECK(std::ranges::count(p.schedule->ops, OpKind::ExchangeCounts, &Op::kind) == 2 * 2 * 2);
}

TEST_CASE("Grouped kernels are refused where they make no sense, with the reason") {
  const auto refused = [](const Experiment& e, const Plan& plan, const char* reason) {
    CHECK_THROWS_WITH(validate(plan, e), Catch::Contains(reason));
  };
  Experiment e = hot_expert();
  Plan plan = grouped();
  CHECK_NOTHROW(validate(plan, e));
  plan.layout = Layout::RankMajor;
  refused(e, plan, "/plan/expert_kernel: grouped contradicts plan.layout rank_major");
  e.workload.message_sizes = MessageSizes::Padded;
  CHECK_NOTHROW(validate(grouped(), e));  // as a batched kernel, since all rows are computed
}
