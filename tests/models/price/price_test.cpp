// SPDX-License-Identifier: Apache-2.0
#include "models/price/price.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/plan/plan.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/price/plan_costs.hpp"
#include "models/results/overlap_text.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/memory.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

namespace {

double milliseconds(const PricedSchedule& p, OpKind kind, Phase phase) {
  for (const OpId i : p.schedule->ops.ids())
    if (p.schedule->ops[i].kind == kind && p.schedule->ops[i].phase == phase) return p.duration[i].value() * 1e3;
  FAIL("no such op");
  return 0;
}

}  // namespace

TEST_CASE("testbed B, one layer of Mixtral at degree 1: op times by the published constants") {
  const PricedSchedule p = price_plan(test::testbed_b(), Plan{});
  const auto forward = [&](OpKind kind) { return milliseconds(p, kind, Phase::Forward); };
  const auto backward = [&](OpKind kind) { return milliseconds(p, kind, Phase::Backward); };
  CHECK(forward(OpKind::Dispatch) == Approx(.175 + 655360 * 1.224e-6));      // n_a2a = 20 * 8 * 4096
  CHECK(forward(OpKind::EspAllGather) == Approx(.032 + 2621440 * 6.72e-7));  // 4 n_a2a
  CHECK(forward(OpKind::EspReduceScatter) == Approx(.0391 + 2621440 * 6.68e-7));
  CHECK(backward(OpKind::EspAllGather) == Approx(.0391 + 2621440 * 6.68e-7));  // a reduce-scatter
  CHECK(forward(OpKind::MpAllGather) == Approx(.032 + 256 * 4096 * 6.72e-7));
  const double multiply_adds = 2621440.0 * 3584 * 3;
  CHECK(forward(OpKind::Expert) == Approx(3 * .0924 + multiply_adds * 1.768e-10));
  CHECK(backward(OpKind::Expert) == Approx(6 * .0924 + 2 * multiply_adds * 1.768e-10));
  CHECK(backward(OpKind::DenseGradientAllReduce) == Approx(.0837 + 10485760 * 2.396e-6));
}

TEST_CASE("a transfer between stages has its own cost, or an all-to-all's, receiving is free") {
  Experiment e = test::testbed_b(2);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  const double elements = 64 * 4096;  // T M
  CHECK(milliseconds(price_plan(e, Plan{}), OpKind::StageSend, Phase::Forward) == Approx(.175 + elements * 1.224e-6));
  CHECK(milliseconds(price_plan(e, Plan{}), OpKind::StageReceive, Phase::Backward) == 0);
  e.calibration.edit().collectives.push_back(
      {Collective::Send, LinkKind::Inter, 0, Seconds(1e-3), SecondsPerByte(1e-9), {Origin::Assumed, "a test"}});
  CHECK(milliseconds(price_plan(e, Plan{}), OpKind::StageSend, Phase::Backward) == Approx(1 + elements * 4 * 1e-6));
}

TEST_CASE("chunking multiplies alpha and shares the rest") {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 4;
  const Experiment e = test::testbed_b();  // 20 rows: 5 a chunk
  CHECK(milliseconds(price_plan(e, plan), OpKind::Dispatch, Phase::Forward) == Approx(.175 + 655360 / 4 * 1.224e-6));
}

TEST_CASE("collectives take the resource of the links their group uses, interpolated by GPUs") {
  Experiment e = test::testbed_b();
  CollectiveCost half = e.calibration->collectives[0];
  e.calibration.edit().collectives[0].gpus = 32;
  half.gpus = 16;
  half.beta = half.beta / 2;
  e.calibration.edit().collectives.push_back(half);
  const auto beta = [&](int nodes) {
    return find_cost(*e.calibration, Collective::AllToAll, {{8, nodes}, 0, 4}).beta / half.beta;
  };
  CHECK(beta(8) == Approx(2));
  CHECK(beta(6) == Approx(1.5));  // 24 GPUs: midway between 16 and 32
  CHECK(beta(2) == Approx(1));    // held below the measured range
  CHECK_THROWS_AS(find_cost(*e.calibration, Collective::AllToAll, {{4, 1}, 0, 4}), InputError);
  e.workload.dtype = DType::Bf16;
  CHECK_THROWS_WITH(price_plan(e, Plan{}), "calibration fsmoe-testbed-b has no GEMM cost for bf16; it has fp32");
}

TEST_CASE("kernels of device memory take a launch each, and products the costs of their format") {
  Experiment e = test::round_numbers(1);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  e.calibration.edit().memory = {Seconds(1e-4), SecondsPerByte(1e-9), {}};
  const auto attention = [&] {
    const PricedSchedule p = price_plan(e, Plan{});
    double seconds = 0;
    for (const OpId i : p.schedule->ops.ids())
      if (const Op& op = p.schedule->ops[i]; op.kind == OpKind::Attention && op.phase == Phase::Forward)
        seconds += p.duration[i].value();
    return seconds;
  };
  // 16 tokens of 8 elements through 8 x 24 and 8 x 8 matrices; 2 heads of 4. A product takes 1 ms + 1 ps a flop.
  const double products = (2 * 16 * 8 * 24 + 2 * 16 * 8 * 8) * 1e-12, square = 2 * (2 * 16 * 16 * 4) * 2 * 1e-12;
  CHECK(attention() == Approx(3e-3 + products + square / 2));
  e.workload.attention = AttentionKernel::Eager;  // four products, and three passes over 2 x 16 x 16 scores
  CHECK(attention() == Approx(4e-3 + products + square + 3e-4 + 6 * 2 * 256 * 4 * 1e-9));
  e.workload.attention = AttentionKernel::Flash;
  e.workload.products = DType::Fp8;
  CHECK_THROWS_WITH(price_plan(e, Plan{}), "calibration round has no GEMM cost for fp8; it has fp32");
  e.calibration.edit().gemms.push_back({DType::Fp8, Seconds(5e-4), SecondsPerFlop(5e-13), {}});
  // Both matrices are cast, 4 bytes to 1; the scores stay in fp32.
  CHECK(attention() == Approx(2 * 5e-4 + products / 2 + 1e-3 + square / 2 + 2e-4 + 5 * (8 * 24 + 8 * 8) * 1e-9));
}

TEST_CASE("a plan is refused whose messages the calibration knows no cost of") {
  const Experiment e = test::testbed_b();
  Plan plan;
  CHECK_NOTHROW(require_costs(plan, e));
  plan.protocol = Protocol::BySize;
  CHECK_NOTHROW(validate(plan, e));
  const auto* const refusal =
      "/plan/protocol: by_size needs the cost of low_latency messages on inter links, which calibration "
      "fsmoe-testbed-b lacks";
  CHECK_THROWS_WITH(require_costs(plan, e), refusal);
  CHECK_THROWS_WITH(build_schedule(e, plan), refusal);
}

TEST_CASE("copies take a resource of their own, at the calibration's cost") {
  Experiment e = test::testbed_b();
  Plan plan;
  plan.restore = Restore::S3;
  CHECK_THROWS_WITH(price_plan(e, plan),
                    "calibration fsmoe-testbed-b has no cost of copies to host memory, needed to offload");
  e.calibration.edit().copy = MemoryCost{Seconds(10e-6), SecondsPerByte(1e-10), {}};
  const PricedSchedule p = price_plan(e, plan);
  CHECK(p.resources == std::vector<std::string>{"compute", "inter", "intra", "copy"});
  CHECK(p.physical == 4);
  // expert_input: 20 rows x 8 experts x 4096, gathered from 4 ranks, fp32
  CHECK(milliseconds(p, OpKind::Offload, Phase::Forward) == Approx(.01 + 2621440 * 4 * 1e-7));
  CHECK(milliseconds(p, OpKind::Prefetch, Phase::Backward) == Approx(.01 + 2621440 * 4 * 1e-7));
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Copy, .9, .8, {}}};
  CHECK(price_plan(e, plan).resources.back() == "compute/copy");
}

TEST_CASE("ideal overlap leaves interference out, and an experiment says which it is") {
  Experiment e = test::testbed_b(1);
  CHECK(describe_overlap(e) == "ideal: the calibration has none");
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 1, .8, {}},
                                       {InterferenceClass::Inter, InterferenceClass::Intra, .8, .8, {}}};
  e.calibration.edit().interference[0].provenance.origin = Origin::Published;
  e.calibration.edit().interference[1].provenance.origin = Origin::Assumed;
  CHECK(describe_overlap(e) == "interfering, 1 assumed factor");
  Plan plan;
  plan.scope = Scope::Moe;
  plan.comm_streams = CommStreams::InterIntra;
  const PricedSchedule slowed = price_plan(e, plan);
  CHECK(slowed.contended);
  CHECK(slowed.resources.size() == slowed.physical + 2);
  e.overlap = Overlap::Ideal;
  CHECK(describe_overlap(e) == "ideal");
  const PricedSchedule ideal = price_plan(e, plan);
  CHECK_FALSE(ideal.contended);
  CHECK(ideal.resources.size() == ideal.physical);
}

TEST_CASE("interference becomes demands on a shared contention resource") {
  Experiment e = test::testbed_b();
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, .9, .8, {}},
                                       {InterferenceClass::Inter, InterferenceClass::Intra, .9, .3, {}}};
  const PricedSchedule p = price_plan(e, Plan{});
  CHECK(p.resources == std::vector<std::string>{"compute", "inter", "intra", "compute/inter", "inter/intra"});
  for (const OpId i : p.schedule->ops.ids()) {
    if (p.schedule->ops[i].kind != OpKind::Dispatch) continue;
    const auto demands = p.demands_of(PricedSchedule::only_activity(i));
    REQUIRE(demands.size() == 3);
    CHECK(demands[1].seconds / demands[0].seconds == Approx(.5 / .8));  // half of compute/inter, .8 of its speed
    // 3 of 4 shares of inter/intra: .25 <= .3 is left to intra.
    CHECK(demands[2].multiplicity == 3);
    CHECK(demands[2].seconds / demands[0].seconds == Approx(.75 / .9));
    CHECK(p.duration[i] == p.fixed[i] + demands[0].seconds);  // alone it is as fast as ever
  }
  // Measured speeds that add up to 1 need not be a fraction of few shares: nearest to .4321 : .5679 is 3 : 4 (.4286 and
  // .5714, .0035 too much for the second), so the second keeps 4/7 of its speed in place of .5679.
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, .4321, .5679, {}}};
  const PricedSchedule measured = price_plan(e, Plan{});
  for (const OpId i : measured.schedule->ops.ids()) {
    const auto demands = measured.demands_of(PricedSchedule::only_activity(i));
    if (measured.schedule->ops[i].kind == OpKind::Dispatch) {
      CHECK(demands[1].multiplicity == 4);
      CHECK(demands[1].seconds == demands[0].seconds);
    }
    if (measured.schedule->ops[i].kind == OpKind::Expert) {
      CHECK(demands[1].multiplicity == 3);
      CHECK(demands[1].seconds / demands[0].seconds == Approx(3. / 7 / .4321));
    }
  }
  e.calibration.edit().interference[0].b_speed = .05;
  CHECK_THROWS_AS(price_plan(e, Plan{}), InputError);
}

TEST_CASE("an entry of one algorithm holds for its all-to-alls, in place of that of all exchanges") {
  Experiment e = test::testbed_b();
  e.calibration.edit().interference = {{InterferenceClass::Compute, InterferenceClass::Inter, 1, .8, {}},
                                       {InterferenceClass::Compute, InterferenceClass::Inter, 1, .6, {}}};
  e.calibration.edit().interference[1].all_to_all = AllToAll::TwoDimensional;
  Plan plan;
  CHECK(price_plan(e, plan).resources == std::vector<std::string>{"compute", "inter", "intra", "compute/inter"});
  plan.all_to_all = AllToAll::TwoDimensional;
  const PricedSchedule p = price_plan(e, plan);
  REQUIRE(p.resources.size() == 5);
  CHECK(p.resources[4] == "compute/inter, two_dimensional");
  const auto contended = [&](OpKind kind) {
    std::vector<int> resources;
    for (const OpId i : p.schedule->ops.ids())
      if (p.schedule->ops[i].kind == kind && resources.empty())
        p.for_each_demand(i, [&](const Demand& d) {
          if (d.resource >= 3) resources.push_back(d.resource);
        });
    return resources;
  };
  CHECK(contended(OpKind::Dispatch) == std::vector<int>{4});
  CHECK(contended(OpKind::DenseGradientAllReduce) == std::vector<int>{3});
  CHECK(contended(OpKind::Expert) == std::vector<int>{3, 4});
}

TEST_CASE("a sequential layer takes the sum of its ops, bounds hold on pipelined ones") {
  const Experiment e = test::round_numbers(2);
  const PricedSchedule sequential = price_plan(e, Plan{});
  Seconds sum;
  for (Seconds duration : sequential.duration) sum += duration;
  std::vector<double> scratch;
  CHECK(analytic_makespan(sequential, scratch).value() == Approx(sum.value()));
  for (int degree = 1; degree <= 4; ++degree) {
    Plan plan;
    plan.scope = Scope::Moe;
    plan.forward_degree = plan.backward_degree = degree;
    plan.comm_streams = CommStreams::InterIntra;
    const PricedSchedule p = price_plan(e, plan);
    const Timeline timeline = AnalyticBackend().run(p);
    const Metrics m = metrics(*p.schedule, timeline);
    CHECK(m.makespan == analytic_makespan(p, scratch));
    CHECK(m.makespan >= plan_bound(p));
    CHECK(plan_bound(p) >= lower_bound(p));
    CHECK(m.exposed_communication < m.makespan);
    CHECK((m.forward + m.backward).value() == Approx(m.makespan.value()));
  }
}

TEST_CASE("exposed communication is communication without computation") {
  Schedule s;
  s.classes = {{1}};
  s.streams = {{StreamKind::Compute, 0}, {StreamKind::Inter, 0}, {StreamKind::Intra, 0}, {StreamKind::Copy, 0}};
  s.ops.resize(4);
  for (const OpId i : s.ops.ids()) s.ops[i].stream = StreamId(std::int32_t{i});
  Timeline t;
  // compute 2..5, inter 0..4, intra 3..7: exposed 0..2 and 5..7; a copy 0..7 is neither
  t.ops = {{Seconds(2), Seconds(5)}, {Seconds(0), Seconds(4)}, {Seconds(3), Seconds(7)}, {Seconds(0), Seconds(7)}};
  const Metrics m = metrics(s, t);
  CHECK(m.exposed_communication == Seconds(4));
  CHECK(m.makespan == Seconds(7));
  CHECK(m.streams[1].busy == Seconds(4));
}

TEST_CASE("computation, exposed communication and waiting of a rank add up to the step") {
  Schedule s;
  s.classes = {{3}, {1}};
  s.streams = {{StreamKind::Compute, 0}, {StreamKind::Inter, 0}, {StreamKind::Compute, 1}, {StreamKind::Inter, 1}};
  s.ops.resize(4);
  for (const OpId i : s.ops.ids()) s.ops[i].stream = StreamId(std::int32_t{i});
  Timeline t;
  // Three ranks compute 0..6 and send 4..8; the fourth computes 0..1, sends 1..5 and has nothing to do 5..8.
  t.ops = {{Seconds(0), Seconds(6)}, {Seconds(4), Seconds(8)}, {Seconds(0), Seconds(1)}, {Seconds(1), Seconds(5)}};
  const Metrics m = metrics(s, t);
  CHECK(m.computation.value() == Approx((3 * 6 + 1) / 4.));
  CHECK(m.exposed_communication.value() == Approx((3 * 2 + 4) / 4.));
  CHECK(m.waiting.value() == Approx(3 / 4.));
  CHECK((m.computation + m.exposed_communication + m.waiting).value() == Approx(8));
}

TEST_CASE("peak memory is the largest sum of lifetimes") {
  Schedule s;
  s.classes = {{1}};
  s.streams = {{StreamKind::Compute, 0}};
  s.tensors.resize(4);  // weights, a, b, c of 10, 4, 5, 6 fp32 elements
  for (const TensorId i : s.tensors.ids())
    s.tensors[i].elements = std::array{10, 4, 5, 6}.at(static_cast<std::size_t>(i));
  s.tensors[0].persistent = true;
  s.ops.resize(3);  // writes a; a -> b; b -> c
  s.operands = {1, 1, 2, 2, 3};
  s.ops[0].writes = {0, 1};
  s.ops[1].reads = {1, 2};
  s.ops[1].writes = {2, 3};
  s.ops[2].reads = {3, 4};
  s.ops[2].writes = {4, 5};
  Timeline t;
  t.ops = {{Seconds(0), Seconds(1)}, {Seconds(1), Seconds(2)}, {Seconds(2), Seconds(3)}};
  const MemoryUse use = memory_use(s, t);  // a; a + b; b + c: 11 elements at the third op
  CHECK(use.persistent == Bytes(40));
  CHECK(use.peak == Bytes(40 + 44));
  CHECK(use.peak_at == Seconds(2));
}
