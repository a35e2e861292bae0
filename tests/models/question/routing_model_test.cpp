// SPDX-License-Identifier: Apache-2.0
#include "models/question/routing_model.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/expert_loads.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op_work.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Loads = std::vector<std::int64_t>;

namespace {

// `tokens` tokens per rank, 4 experts.
Experiment four_experts(int tokens, int top_k, double factor = 1) {
  Experiment e = test::round_numbers(1);
  e.workload.batch = 1;
  e.workload.sequence = tokens * e.parallelism.mp;
  e.workload.top_k = top_k;
  e.workload.capacity_factor = factor;
  e.model.experts = 4;
  return e;
}

}  // namespace

TEST_CASE("Uniform loads differ by at most one and add up to k T") {
  Experiment e = four_experts(10, 1);
  e.workload.routing.kind = RoutingKind::Uniform;
  CHECK(expert_loads(e, 0, 0) == Loads{3, 3, 2, 2});
  e.workload.top_k = 4;
  CHECK(expert_loads(e, 0, 0) == Loads{10, 10, 10, 10});
}

TEST_CASE("Uniform loads are those of equal shares") {
  for (const int experts : {3, 7, 49, 160})
    for (const int tokens : {1, 5, 160, 4095, 4096}) {
      Experiment e = four_experts(tokens, std::min(3, experts));
      e.model.experts = experts;
      e.workload.routing.kind = RoutingKind::Uniform;
      const Loads uniform = expert_loads(e, 0, 0);
      e.workload.routing.kind = RoutingKind::Zipf;
      e.workload.routing.exponent = 0;
      CAPTURE(experts, tokens);
      CHECK(uniform == expert_loads(e, 0, 0));
    }
}

TEST_CASE("Zipf's loads fall as 1 / rank^s, and an expert gets no token twice") {
  Experiment e = four_experts(100, 1);
  e.workload.routing.kind = RoutingKind::Zipf;
  // 100 x (12, 6, 4, 3) / 25
  CHECK(expert_loads(e, 0, 0) == Loads{48, 24, 16, 12});
  e.workload.routing.exponent = 0;
  CHECK(expert_loads(e, 0, 0) == Loads{25, 25, 25, 25});
  e.workload.routing.exponent = 1;
  e.workload.top_k = 3;
  // 300: expert 0 has all 100; of 200 the others get 6, 4, 3 thirteenths, 92, 62, 46.
  CHECK(expert_loads(e, 0, 0) == Loads{100, 92, 62, 46});
}

TEST_CASE("A hot expert has its share") {
  Experiment e = four_experts(30, 1);
  e.workload.routing.kind = RoutingKind::Hot;
  e.workload.routing.hot_expert = 2;
  e.workload.routing.hot_share = .6;
  CHECK(expert_loads(e, 0, 0) == Loads{4, 4, 18, 4});
  e.workload.routing.hot_share = 1;
  e.workload.top_k = 2;  // 60 choices, but only 30 tokens: the rest goes to the others
  CHECK(expert_loads(e, 0, 0) == Loads{10, 10, 30, 10});
}

TEST_CASE("A trace's rows are scaled to the tokens here, its tables and rows repeated") {
  Experiment e = four_experts(10, 1);
  e.workload.layers = 1;
  e.workload.routing.kind = RoutingKind::Trace;
  e.workload.routing.layers = {{{1, 2, 3, 4}, {10, 0, 0, 10}}, {{0, 0, 0, 0}}};
  CHECK(expert_loads(e, 0, 0) == Loads{1, 2, 3, 4});
  CHECK(expert_loads(e, 0, 1) == Loads{5, 0, 0, 5});
  CHECK(expert_loads(e, 2, 2) == Loads{1, 2, 3, 4});
  CHECK(expert_loads(e, 1, 0) == Loads{3, 3, 2, 2});  // nothing recorded: uniform
}

TEST_CASE("Capacity: by the factor, as large as needed, or that but capped") {
  Experiment e = four_experts(100, 1, 1.2);
  e.workload.routing.kind = RoutingKind::Zipf;  // 48, 24, 16, 12
  resolve_capacity(e);
  CHECK(layer_volumes(e).capacity == 30);  // 1.2 x 100 / 4
  e.workload.capacity_factor = 0;
  resolve_capacity(e);
  CHECK(layer_volumes(e).capacity == 48);
  e.workload.capacity_factor = -1.6;
  resolve_capacity(e);
  CHECK(layer_volumes(e).capacity == 40);
  e.workload.capacity_factor = -2;
  resolve_capacity(e);
  CHECK(layer_volumes(e).capacity == 48);
}

TEST_CASE("The summary counts what exceeds the capacity and compares the fullest expert with the mean") {
  Experiment e = four_experts(100, 1, .8);
  e.workload.routing.kind = RoutingKind::Zipf;
  const RoutingSummary s = summarize_routing(e);  // 48, 24, 16, 12; C = 20: 28 + 4 too many
  const int ranks = e.cluster.gpus();
  CHECK(s.choices == 100 * ranks);
  CHECK(s.dropped == 32 * ranks);
  CHECK(s.largest == 48);
  CHECK(s.imbalance == Approx(48.0 / 25));
}

TEST_CASE("An open capacity, and gates that contradict their workload, are refused") {
  const auto refused = [](const Experiment& e, const std::string& what) {
    CHECK_THROWS_WITH(validate(e), Catch::Matchers::Contains(what));
  };
  Experiment e = four_experts(100, 1, 0);
  refused(e, "nothing has resolved it");
  e.workload.gate.kind = GateKind::ExpertChoice;
  refused(e, "fills any capacity");
  e.workload.capacity_factor = 1;
  e.workload.gate.renormalise = true;
  refused(e, "tokens of expert_choice choose no experts");
  e.workload.gate.renormalise = false;
  e.workload.routing.kind = RoutingKind::Zipf;
  refused(e, "zipf contradicts the gate expert_choice");
  e.workload.routing.kind = RoutingKind::Router;
  CHECK_NOTHROW(validate(e));
  e.workload.capacity_factor = 4.5;
  refused(e, "choose 113 of only 100 tokens");
  e.workload.capacity_factor = 1;
  e.workload.gate.kind = GateKind::SoftMoe;
  Plan plan;
  CHECK_THROWS_WITH(validate(plan, e), Catch::Matchers::Contains("sparse contradicts the gate soft_moe"));
  plan.encoding = Encoding::Dense;
  CHECK_NOTHROW(validate(plan, e));
}

TEST_CASE("Router weights and work of every gate") {
  Experiment e = four_experts(100, 2);  // C = 50
  e.model.hidden = 32;
  const auto volumes = [&](GateKind kind) {
    e.workload.gate.kind = kind;
    return layer_volumes(e);
  };
  CHECK(volumes(GateKind::Softmax).router_parameters == 32 * 4);
  CHECK(volumes(GateKind::Sigmoid).router_parameters == 32 * 4);
  CHECK(volumes(GateKind::Gshard).router_parameters == 2 * 32 * 4);
  CHECK(volumes(GateKind::XMoe).router_parameters == 16 * (32 + 4) + 1);
  CHECK(volumes(GateKind::Cosine).router_parameters == 32 * (32 + 4) + 1);  // 256, but at most M
  CHECK(volumes(GateKind::SoftMoe).router_parameters == 32 * 4 * 50);
  CHECK(volumes(GateKind::Softmax).routing_entries == 200);
  CHECK(volumes(GateKind::ExpertChoice).routing_entries == 4 * 50);
  const LayerVolumes gshard = volumes(GateKind::Gshard);
  const Plan plan;
  ScheduleWriter writer(0);
  const auto forward = std::get<KernelWork>(OpWork(gshard, e, plan, writer).gate(Phase::Forward));
  CHECK(forward.flops == Flops(2.0 * 100 * 256));
  CHECK(forward.gemms == 2);
}

TEST_CASE("Dense order is GEMMs over T E C weights, which take memory") {
  Experiment e = four_experts(100, 2);
  e.model.hidden = 32;
  e.workload.dtype = DType::Bf16;
  const LayerVolumes v = layer_volumes(e);
  const Plan sparse_order;
  Plan dense_order;
  dense_order.encoding = Encoding::Dense;
  ScheduleWriter writer(0);
  const OpWork dense(v, e, dense_order, writer), sparse(v, e, sparse_order, writer);
  const double product = 2.0 * 100 * 4 * 50 * 32;  // 2 T E C M
  CHECK(dense.encode(Phase::Forward).flops == Flops(product));
  CHECK(dense.encode(Phase::Backward).flops == Flops(product));
  CHECK(dense.decode(Phase::Forward).flops == Flops(product));
  CHECK(dense.decode(Phase::Backward).flops == Flops(2 * product));
  const auto gate_traffic = [](const OpWork& work) {
    return std::get<KernelWork>(work.gate(Phase::Forward)).memory_traffic;
  };
  CHECK(gate_traffic(dense) - gate_traffic(sparse) == Bytes(100 * 4 * 50 * (4 + 2)));
  const auto bytes_of = [&](Encoding encoding, TensorKind kind) {
    Plan plan;
    plan.encoding = encoding;
    Bytes sum;
    for (const Tensor& t : build_schedule(e, plan).tensors)
      if (t.kind == kind && !t.gradient) sum += t.bytes();
    return sum;
  };
  CHECK(bytes_of(Encoding::Dense, TensorKind::CombineWeights) == Bytes(100 * 4 * 50 * 4));
  CHECK(bytes_of(Encoding::Dense, TensorKind::RoutingMask) == Bytes(100 * 4 * 50 * 2));
  CHECK(bytes_of(Encoding::Sparse, TensorKind::RoutingMask) == Bytes(0));
  CHECK(bytes_of(Encoding::Sparse, TensorKind::Routing) == Bytes(3 * 200 * 4));
}
