// SPDX-License-Identifier: Apache-2.0
// A single MoE layer as papers time it: forward and backward of gate, exchanges and experts, without attention,
// reductions of gradients and optimizer.
#pragma once
#include <vector>

#include "bench/reproduce/support.hpp"
#include "models/price/price.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

struct LayerSizes {
  int gpus = 8, tokens = 0, hidden = 0, expert_hidden = 0;  // tokens of each GPU
  int experts = 0;                                          // of all GPUs; fewer than GPUs: each over several of them
  int top_k = 1;
  double capacity_factor = 1;
};

// {"gpus", "tokens", "hidden", "expert_hidden", "experts" or "experts_per_gpu", "top_k", "capacity_factor"}; what is
// not given is that of `usual`.
LayerSizes read_sizes(const JsonReader& json, LayerSizes usual = {});

// The experts on that many GPUs together. Throws InputError for less than one expert or too many.
int experts_on(int gpus, double per_gpu);

// `base` with one layer of these sizes, whose attention has a single head of one element. Up to a node's GPUs stay on
// one node.
Experiment moe_layer(Experiment base, const LayerSizes& sizes);

// Times of all other ops are zero.
PricedSchedule price_moe(const Experiment& experiment, const Plan& plan);
Seconds moe_time(const Experiment& experiment, const Plan& plan);

// The plan that the system's planner completes when it looks at this time alone.
Plan plan_moe(const Experiment& experiment, const System& system);

// The same plan in each of these degrees, as far as the capacity has so many rows.
std::vector<Plan> in_degrees(const Experiment& experiment, Plan plan, std::span<const int> degrees);

Seconds fastest(const Experiment& experiment, std::span<const Plan> plans);

// Device memory of the plan, each tensor at its planned address.
Bytes arena_of(const Experiment& experiment, const Plan& plan);

// Device memory of the plan where PyTorch allocates each tensor whole: what torch.cuda.max_memory_allocated() says.
Bytes allocated_of(const Experiment& experiment, const Plan& plan);

double milliseconds(Seconds time);
double percent_more(Seconds slow, Seconds fast);  // 100 (slow / fast - 1)

}  // namespace dovetail::bench
