// SPDX-License-Identifier: Apache-2.0
// Steps that compute parts of their forward pass again (plan.recompute) give what the reference does.
#include <catch2/catch.hpp>

#include "models/base/names.hpp"
#include "models/plan/plan_rules.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Experiment experiment_of(int mp, Extent extent) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = 2;
  s.kind = ExpertKind::Gated;
  Experiment e = small_experiment(s);
  e.workload.extent = extent;
  e.model.vocabulary = 23;
  return e;
}

void add_dense_parts(Experiment& e) {
  e.model.dense_hidden = 20;
  e.model.first_dense = 1;
  e.model.shared_experts = {2, 6, false};
}

Plan chunked_plan(EnumSet<Recompute> parts, Scope scope) {
  Plan plan;
  plan.recompute = parts;
  plan.scope = scope;
  if (scope == Scope::Layer) return plan;
  plan.forward_degree = 2;
  plan.backward_degree = scope == Scope::Block ? 2 : 3;
  plan.comm_streams = CommStreams::InterIntra;
  return plan;
}

// Every part alone, and some together.
const std::vector<EnumSet<Recompute>> all_parts{{Recompute::Full},
                                                {Recompute::Attention},
                                                {Recompute::MpGather},
                                                {Recompute::Norms},
                                                {Recompute::MpGather, Recompute::Norms},
                                                {Recompute::MpGather, Recompute::Attention, Recompute::SharedExperts},
                                                {Recompute::Activation},
                                                {Recompute::DenseFfn},
                                                {Recompute::SharedExperts},
                                                {Recompute::Moe},
                                                {Recompute::Norms, Recompute::Moe},
                                                {Recompute::Attention, Recompute::Norms, Recompute::Activation,
                                                 Recompute::DenseFfn, Recompute::SharedExperts, Recompute::Moe}};

}  // namespace

TEST_CASE("Every recomputed part gives the same, in every extent and scope", "[recompute]") {
  const int mp = GENERATE(1, 2);
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers, Extent::Model);
  const bool dense = GENERATE(false, true);
  Experiment e = experiment_of(mp, extent);
  if (dense) add_dense_parts(e);
  for (const Scope scope : {Scope::Layer, Scope::Moe, Scope::Block})
    for (const EnumSet<Recompute> parts : all_parts) {
      const Plan plan = chunked_plan(parts, scope);
      if (refusal(plan, e)) continue;
      INFO(describe(e, plan));
      check_numerics(e, plan);
    }
}

TEST_CASE("A gate that runs again chooses the same experts, with its noise", "[recompute]") {
  Experiment e = experiment_of(2, GENERATE(Extent::Layers, Extent::WholeLayers));
  e.workload.gate.kind = GENERATE(GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe, GateKind::Cosine,
                                  GateKind::ExpertChoice, GateKind::SoftMoe);
  Plan plan = chunked_plan({GENERATE(Recompute::Full, Recompute::Moe)}, Scope::Moe);
  if (GENERATE(false, true) || e.workload.gate.kind == GateKind::SoftMoe) plan.encoding = Encoding::Dense;
  check_numerics(e, plan);
}

TEST_CASE("Recomputation in a pipeline of micro-batches, with virtual stages", "[recompute]") {
  Experiment e = experiment_of(1, GENERATE(Extent::Layers, Extent::Model));
  e.model.layers = e.workload.layers = 4;
  if (GENERATE(false, true)) add_dense_parts(e);
  e.workload.batch = 4;
  e.parallelism.pp = 2;
  e.cluster.nodes *= 2;
  Plan plan = chunked_plan({GENERATE(Recompute::Full, Recompute::Moe, Recompute::Attention)}, Scope::Moe);
  plan.grad_sync = GradSync::WithDense;
  plan.micro_batches = 4;
  plan.pipeline_schedule =
      GENERATE(pipeline_schedule("1f1b"), pipeline_schedule("interleaved"), pipeline_schedule("zb_v"));
  if (plan.pipeline_schedule != pipeline_schedule("1f1b")) plan.virtual_stages = 2;
  CHECK(numerics_of(e, plan, exec::Element::Double).ok(1e-12));
}

TEST_CASE("Rows that are compressed, repeated, split by peers or stepped are sent again alike", "[recompute]") {
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  SmallExperiment s;
  s.dp = 4;
  s.ep = 4;
  s.experts = 8;
  s.layers = 2;
  s.kind = ExpertKind::Gated;
  Plan plan = chunked_plan({GENERATE(Recompute::Full, Recompute::Moe)}, Scope::Moe);
  SECTION("in fp8") {
    plan.dispatch_wire = plan.combine_wire = Wire::Fp8;
  }
  SECTION("in peer groups") {
    plan.split = Split::Peers;
    plan.forward_degree = plan.backward_degree = 1;
    plan.peer_group = 2;
  }
  SECTION("past shadowed experts") {
    plan.shadowed_experts = {2, 5};
  }
  SECTION("in steps") {
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
  SECTION("while the host waits, the readiest first") {
    plan.host_sync = true;
    plan.order = Order::ReadyFirst;
  }
  Experiment e = small_experiment(s);
  e.workload.extent = extent;
  check_numerics(e, plan);
}

TEST_CASE("Other parts go with MPipeMoE's strategies", "[recompute]") {
  const Experiment e = experiment_of(2, Extent::WholeLayers);
  Plan plan = chunked_plan({Recompute::Attention, Recompute::Norms}, Scope::Moe);
  plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  check_numerics(e, plan);
}
