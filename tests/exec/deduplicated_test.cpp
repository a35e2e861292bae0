// SPDX-License-Identifier: Apache-2.0
// Exchanges that send a token to a node once, really executed: the numbers are those of the reference, and the bytes
// those that are simulated.
#include <catch2/catch.hpp>
#include <map>

#include "models/question/capacity.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

struct NodeSizes {
  int ranks = 4, of_node = 2;
};

Experiment routed(SmallExperiment s, NodeSizes nodes) {
  s.dp = nodes.ranks / s.mp;
  s.ep = nodes.ranks;
  s.experts = 2 * nodes.ranks;
  s.top_k = 3;
  s.kind = ExpertKind::Gated;
  s.capacity_factor = 0;
  Experiment e = small_experiment(s);
  e.cluster.gpus_per_node = nodes.of_node;
  e.cluster.nodes = s.pp * nodes.ranks / nodes.of_node;
  e.workload.message_sizes = MessageSizes::Routed;
  e.workload.routing.kind = RoutingKind::Zipf;
  e.workload.routing.exponent = .5;
  resolve_capacity(e);
  return e;
}

Plan once_to_a_node(int forward_degree = 1, int backward_degree = 1) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  plan.all_to_all = AllToAll::NodeDeduplicated;
  plan.scores_at = ScoresAt::Experts;
  plan.expert_kernel = ExpertKernel::Grouped;
  return plan;
}

}  // namespace

TEST_CASE("Tokens sent to a node once: the reference's numbers on nodes of every size, in chunks", "[deduplicated]") {
  const NodeSizes nodes = GENERATE(NodeSizes{4, 2}, NodeSizes{4, 4}, NodeSizes{4, 1}, NodeSizes{6, 3}, NodeSizes{2, 1});
  check_numerics(routed({}, nodes), once_to_a_node(GENERATE(1, 3), GENERATE(1, 2)));
}

TEST_CASE("Tokens sent to a node once, beside other choices of a plan", "[deduplicated]") {
  SmallExperiment s;
  s.layers = 2;
  Plan plan = once_to_a_node(2, 1);
  Extent extent = Extent::Layers;
  SECTION("rows sent again, computed again or brought back") {
    plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  }
  SECTION("recomputed") {
    extent = Extent::WholeLayers;
    plan.recompute = {GENERATE(Recompute::Full, Recompute::Moe, Recompute::Activation)};
  }
  SECTION("rows in other formats on their way out") {
    plan.dispatch_wire = GENERATE(Wire::Bf16, Wire::Fp8);
    plan.restore = GENERATE(Restore::Keep, Restore::S4);
  }
  SECTION("batched experts") {
    plan.expert_kernel = ExpertKernel::Batched;
  }
  SECTION("two streams, the readiest first") {
    plan.comm_streams = CommStreams::DispatchCombine;
    plan.order = Order::ReadyFirst;
  }
  SECTION("chunks take over buffers") {
    plan = once_to_a_node(3, 3);
    plan.restore = Restore::S4;
    plan.order = Order::Alternate;
    plan.buffers = GENERATE(Buffers::Single, Buffers::Double);
  }
  SECTION("model-parallel ranks") {
    s.mp = 2;
  }
  SECTION("forward alone") {
    s.phases = Phases::ForwardOnly;
  }
  Experiment e = routed(s, {4, 2});
  e.workload.extent = extent;
  check_numerics(e, plan);
}

TEST_CASE("Tokens sent to a node once in a pipeline of micro-batches", "[deduplicated]") {
  SmallExperiment s;
  s.pp = 2;
  s.layers = 2;
  s.batch = 4;
  Experiment e = routed(s, {4, 2});
  Plan plan = once_to_a_node(2, 1);
  plan.micro_batches = 4;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  check_numerics(e, plan);
}

TEST_CASE("Tokens sent to a node once, of which some choices are dropped", "[deduplicated]") {
  Experiment e = routed({}, {4, 2});
  e.workload.capacity_factor = .6;
  resolve_capacity(e);
  check_numerics(e, once_to_a_node(2, 2), true);
}

TEST_CASE("Ranks send as many copies as are simulated, op by op", "[deduplicated]") {
  SmallExperiment s;
  s.layers = 2;
  s.sequence = 64;
  Experiment e = routed(s, GENERATE(NodeSizes{4, 2}, NodeSizes{6, 3}, NodeSizes{4, 4}));
  e.workload.routing.kind = GENERATE(RoutingKind::Uniform, RoutingKind::Zipf);
  if (GENERATE(true, false)) e.workload.capacity_factor = .7;  // and some are dropped
  resolve_capacity(e);
  Plan plan = once_to_a_node(2, 1);
  plan.restore = Restore::S4;
  plan.dispatch_wire = GENERATE(Wire::Same, Wire::Fp8);
  const auto [schedule, sent] = execute(e, plan);
  std::map<OpKind, double> all;
  for (const OpId i : sent.ids()) {
    const Op& op = schedule->ops[i];
    if (op.exchange() == nullptr) continue;
    INFO(to_string(op));
    CHECK(sent[i].sent == Approx(simulated_bytes(e, *schedule, op)).epsilon(1e-12));
    all[op.kind] += sent[i].sent;
  }
  for (OpKind kind : {OpKind::Dispatch, OpKind::Combine, OpKind::RestoreDispatch}) CHECK(all[kind] > 0);
}

TEST_CASE("Ranks send fewer bytes than to every expert by itself", "[deduplicated]") {
  SmallExperiment s;
  s.sequence = 64;
  s.hidden = 32;
  const Experiment e = routed(s, {4, 4});
  Plan linear = once_to_a_node();
  linear.all_to_all = AllToAll::Linear;
  const auto rows = [&](const Plan& plan) {
    const auto [schedule, sent] = execute(e, plan);
    double sum = 0;
    for (const OpId i : sent.ids())
      if (const OpKind kind = schedule->ops[i].kind; kind == OpKind::Dispatch || kind == OpKind::Combine)
        sum += sent[i].sent;
    return sum;
  };
  // A token of three choices among eight reaches 2.5 of four ranks. Rows of 32 numbers have 1 or 4 beside them.
  CHECK(rows(once_to_a_node()) < .95 * rows(linear));
}
