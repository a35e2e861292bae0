// SPDX-License-Identifier: Apache-2.0
// Steps whose experts apply the scores (plan.scores_at) give what the reference does, which knows one place for them.
#include <catch2/catch.hpp>

#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

// Four ranks, eight experts of which each has two, two layers.
SmallExperiment four_ranks(ExpertKind kind) {
  SmallExperiment s;
  s.dp = s.ep = 4;
  s.experts = 8;
  s.layers = 2;
  s.kind = kind;
  return s;
}

Plan at_experts(int forward_degree, int backward_degree) {
  Plan plan;
  plan.scores_at = ScoresAt::Experts;
  if (forward_degree == 1 && backward_degree == 1) return plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  return plan;
}

void check(const Experiment& e, const Plan& plan) {
  INFO(describe(e, plan));
  check_numerics(e, plan);
}

}  // namespace

TEST_CASE("Experts that apply scores give what decode does, in chunks of any number", "[scores]") {
  Experiment e = small_experiment(four_ranks(GENERATE(ExpertKind::Ffn, ExpertKind::Gated)));
  e.workload.extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  e.workload.gate.renormalise = GENERATE(false, true);
  for (const auto& [forward, backward] : {std::pair{1, 1}, {2, 2}, {2, 3}, {3, 2}, {1, 4}})
    check(e, at_experts(forward, backward));
}

TEST_CASE("Scores go the ways of their rows", "[scores]") {
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  SmallExperiment s = four_ranks(ExpertKind::Gated);
  Plan plan = at_experts(2, 2);
  GateKind gate = GateKind::Softmax;
  SECTION("on one rank, without an exchange") {
    s.dp = s.ep = 1;
  }
  SECTION("in peer groups") {
    plan.split = Split::Peers;
    plan.forward_degree = plan.backward_degree = 1;
    plan.peer_group = 2;
  }
  SECTION("beside an exchange in steps") {
    plan.all_to_all = AllToAll::TwoDimensional;
    plan.all_to_all_levels = {2, 2};
  }
  SECTION("with gathered weights") {
    s.ep = s.esp = 2;
    plan.expert_sharding = ExpertSharding::EpDp;
  }
  SECTION("repeated to the shards") {
    s.ep = s.esp = 2;
    plan.expert_sharding = ExpertSharding::EpMp;
  }
  SECTION("beside rows in fp8") {
    plan.dispatch_wire = Wire::Fp8;
  }
  SECTION("chosen by the experts") {
    gate = GateKind::ExpertChoice;
  }
  SECTION("to GEMMs of each rank's rows") {
    plan.layout = Layout::RankMajor;
  }
  SECTION("in chunks of tokens") {
    plan.scope = Scope::Block;
  }
  SECTION("while the host waits, the readiest first") {
    plan.host_sync = true;
    plan.order = Order::ReadyFirst;
  }
  Experiment e = small_experiment(s);
  e.workload.extent = extent;
  e.workload.gate.kind = gate;
  check(e, plan);
}

TEST_CASE("Scores are there again where rows are sent again or computed again", "[scores]") {
  Experiment e = small_experiment(four_ranks(ExpertKind::Gated));
  e.workload.extent = Extent::WholeLayers;
  Plan plan = at_experts(2, 2);
  SECTION("by MPipeMoE's strategies") {
    plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  }
  SECTION("by recomputation") {
    plan.recompute = {GENERATE(Recompute::Full, Recompute::Moe, Recompute::Activation)};
  }
  check(e, plan);
}

TEST_CASE("Scores at the experts in a pipeline of micro-batches", "[scores]") {
  SmallExperiment s = four_ranks(ExpertKind::Gated);
  s.dp = s.ep = 2;
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 23;
  e.workload.batch = 4;
  e.parallelism.pp = 2;
  e.cluster.nodes *= 2;
  Plan plan = at_experts(2, 2);
  plan.micro_batches = 4;
  plan.pipeline_schedule = GENERATE(pipeline_schedule("1f1b"), pipeline_schedule("zb_h1"));
  check(e, plan);
}
