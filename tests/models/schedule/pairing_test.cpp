// SPDX-License-Identifier: Apache-2.0
// Steps whose micro-batches overlap: what their ops are, and where they stand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/schedule/op_table.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

std::pair<Experiment, Plan> in_pairs(test::Random& random) {
  for (;;) {
    const Experiment e = test::random_experiment(random);
    Plan plan = test::random_plan(random, e);
    if (plan.scope == Scope::Batch && !test::refusal(plan, e)) return {e, plan};
  }
}

// The ops of a pass in their order, by rank class, micro-batch and pass.
using Passes = std::map<std::tuple<int, int, Phase>, std::vector<std::string>>;
Passes passes(const Schedule& s) {
  Passes all;
  for (const Op& op : s.ops) {
    const bool of_step = op.phase == Phase::Update || entry_of(op.kind).part == OpPart::StepEnd;
    if (!of_step) all[{s.class_of(op), op.micro_batch, op.pass()}].push_back(to_string(op));
  }
  return all;
}

// Exchanges, attention, experts and waits of the second of two micro-batches beside the first one, as they come in the
// last layer: "f.attention", or "bw.attention" for gradients of weights.
std::string order_of_last_layer(const Experiment& e, Plan plan) {
  plan.scope = Scope::Batch;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  plan.micro_batches = 2;
  std::string text;
  for (const Op& op : build_step(e, plan).ops) {
    const bool forward = op.phase == Phase::Forward;
    if (op.micro_batch != (forward ? 1 : 0) || op.layer != (forward ? 0 : e.workload.layers - 1)) continue;
    if (op.kind == OpKind::Attention || op.kind == OpKind::Dispatch || op.kind == OpKind::Expert ||
        op.kind == OpKind::HostSync || op.kind == OpKind::Combine || op.kind == OpKind::Decode)
      text += (forward ? "f." : op.half == Half::Weights ? "bw." : "b.") + std::string(entry_of(op.kind).name) + " ";
  }
  return text;
}
std::string order_of_last_layer(PairOrder order) {
  Experiment e = test::round_numbers();
  e.workload.batch = 2;
  Plan plan;
  plan.pair_order = order;
  return order_of_last_layer(e, plan);
}

}  // namespace

TEST_CASE("A step in pairs is a permutation of one that is not, and each pass keeps its order") {
  int several_stages = 0, recomputed = 0, uneven = 0;
  const int wanted = test::cases(80);
  for (int seed = 1; seed <= wanted; ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    auto [e, plan] = in_pairs(random);
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const Schedule paired = build_step(e, plan);
    CHECK_NOTHROW(validate(paired));
    several_stages += e.parallelism.pp > 1 ? 1 : 0;
    recomputed += plan.recompute.empty() ? 0 : 1;
    uneven += e.parallelism.pp > 1 && e.workload.layers % (e.parallelism.pp * plan.virtual_stages) != 0 ? 1 : 0;
    plan.scope = Scope::Layer;
    plan.pair_order = PairOrder::Alternate;
    const Schedule apart = build_step(e, plan);
    CHECK(paired.ops.size() == apart.ops.size());
    CHECK(passes(paired) == passes(apart));
  }
  CAPTURE(several_stages, recomputed, uneven);
  CHECK(std::min({several_stages, recomputed, uneven}) >= wanted / 40);
}

TEST_CASE("Exchanges of one micro-batch lie beside the computation of the other, in the order that the plan has") {
  CHECK(order_of_last_layer(PairOrder::Alternate) ==
        "b.decode b.combine f.attention b.expert f.dispatch b.dispatch f.expert f.combine b.attention f.decode ");
  CHECK(order_of_last_layer(PairOrder::AttentionEarly) ==
        "b.decode b.combine f.attention b.expert f.dispatch b.dispatch b.attention f.expert f.combine f.decode ");
  CHECK(order_of_last_layer(PairOrder::ExpertsFirst) ==
        "b.decode b.combine b.expert b.dispatch f.attention f.dispatch b.attention f.expert f.combine f.decode ");
}

// Megatron-LM waits for the counts of rows in its dispatch (cuda_sync_point before_ep_alltoall), which it issues after
// the experts' backward pass. It makes the weights' gradients of attention before the next layer of the forward pass.
TEST_CASE(
    "The host issues the experts' backward pass before it waits for counts, and weights' gradients of attention last") {
  Experiment e = test::round_numbers(2);
  e.workload.batch = 2;
  e.workload.layers = 2;
  e.workload.message_sizes = MessageSizes::Routed;
  Plan plan;
  plan.expert_kernel = ExpertKernel::Grouped;
  plan.delay_weight_gradient = DelayedWeights::All;
  CHECK(order_of_last_layer(e, plan) ==
        "b.decode b.combine f.attention b.expert f.host_sync f.dispatch b.dispatch bw.expert f.expert f.combine "
        "b.attention bw.attention f.decode ");
}
