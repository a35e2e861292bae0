// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/one_stage.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/plan/knob_table.hpp"
#include "models/question/capacity.hpp"

namespace dovetail::planners {

Experiment stage_alone(Experiment e) {
  const int ranks = e.parallelism.stage_ranks();
  int nodes = (ranks + e.cluster.gpus_per_node - 1) / e.cluster.gpus_per_node;
  while (ranks % nodes != 0) ++nodes;
  e.cluster.nodes = nodes;
  e.cluster.nics_per_node = std::max(1, e.cluster.nics_per_node * (ranks / nodes) / e.cluster.gpus_per_node);
  e.cluster.gpus_per_node = ranks / nodes;
  e.cluster.network.reset();
  e.parallelism.pipeline_layout.clear();
  e.parallelism.pp = 1;
  return e;
}

Experiment smallest_stage(Experiment e) {
  Parallelism& p = e.parallelism;
  const int ranks = p.stage_ranks(), node = e.cluster.gpus_per_node;
  if (ranks > node && ranks % node == 0) {
    const int replica = std::max(1, p.ep * p.esp), least = std::lcm(std::lcm(node, p.mp), replica);
    p.dp = least / p.mp;
    p.edp = least / replica;
  }
  return stage_alone(std::move(e));
}

Experiment of_layers(Experiment e, Layers layers) {
  e.model.first_dense = layers.dense;
  e.model.moe_every = 1;
  e.workload.layers = layers.dense + layers.moe;
  e.model.layers = std::max(e.workload.layers, 1);
  e.workload.mtp_layers = layers.predictions;
  resolve_capacity(e);
  return e;
}

Plan of_one_stage(Plan plan) {
  copy_knobs(KnobClass::Pipeline, Plan{}, plan);
  if (plan.scope == Scope::Batch) plan.scope = Scope::Layer;
  plan.pair_order = Plan{}.pair_order;
  plan.backward_degrees.clear();
  plan.gradient_slices.clear();
  if (plan.grad_sync == GradSync::Partitioned) plan.grad_sync = GradSync::WithDense;  // nearest without slices
  return plan;
}

std::vector<std::int64_t> layout_key(const Experiment& e) {
  const Parallelism& p = e.parallelism;
  return {p.pp, p.mp, p.dp, p.ep, p.esp, p.edp, p.token_repeats(), e.workload.batch};
}

}  // namespace dovetail::planners
