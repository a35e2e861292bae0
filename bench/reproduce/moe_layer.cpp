// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/moe_layer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/price/transforms.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/op_table.hpp"
#include "models/time/analytic_backend.hpp"
#include "models/time/framework_memory.hpp"
#include "models/time/memory.hpp"
#include "planners/catalog/registry.hpp"

namespace dovetail::bench {
namespace {

bool outside_moe(OpKind kind) {
  const OpPart part = entry_of(kind).part;
  return part == OpPart::Attention || part == OpPart::StepEnd;
}

}  // namespace

LayerSizes read_sizes(const JsonReader& json, LayerSizes sizes) {
  sizes.gpus = json.integer_or("gpus", sizes.gpus, 1, largest_setting);
  sizes.tokens = json.integer_or("tokens", sizes.tokens, 1, largest_setting);
  sizes.hidden = json.integer_or("hidden", sizes.hidden, 1, largest_setting);
  sizes.expert_hidden = json.integer_or("expert_hidden", sizes.expert_hidden, 1, largest_setting);
  sizes.experts = json.integer_or("experts", sizes.experts, 1, largest_setting);
  if (const auto each = json.find("experts_per_gpu")) sizes.experts = experts_on(sizes.gpus, each->number());
  sizes.top_k = json.integer_or("top_k", sizes.top_k, 1, largest_setting);
  sizes.capacity_factor = json.number_or("capacity_factor", sizes.capacity_factor);
  return sizes;
}

int experts_on(int gpus, double per_gpu) {
  constexpr double most = 65'536;
  const double experts = per_gpu * gpus;
  if (!(experts >= 1 && experts <= most))
    throw InputError(fmt::format("{} experts on each of {} GPUs, expected 1 to {} in all", per_gpu, gpus, most));
  return static_cast<int>(experts);
}

Experiment moe_layer(Experiment e, const LayerSizes& sizes) {
  constexpr int most_gpus = 1 << 20;
  for (const auto& [what, size] : {std::pair{"gpus", sizes.gpus},
                                   {"tokens", sizes.tokens},
                                   {"hidden", sizes.hidden},
                                   {"expert_hidden", sizes.expert_hidden},
                                   {"experts", sizes.experts},
                                   {"top_k", sizes.top_k}})
    if (size < 1) throw InputError(fmt::format("{} is {}, expected at least 1", what, size));
  if (sizes.gpus > most_gpus) throw InputError(fmt::format("gpus is {}, expected at most {}", sizes.gpus, most_gpus));
  e.cluster.gpus_per_node = std::min(sizes.gpus, e.cluster.gpus_per_node);
  e.cluster.nodes = sizes.gpus / e.cluster.gpus_per_node;
  e.model.layers = e.workload.layers = 1;
  e.model.hidden = sizes.hidden;
  e.model.attention = {1, 1, 1};
  e.model.experts = sizes.experts;
  e.model.expert_hidden = sizes.expert_hidden;
  e.model.top_k = e.workload.top_k = sizes.top_k;
  const int ep = std::min(sizes.gpus, sizes.experts);
  e.parallelism = {.dp = sizes.gpus, .mp = 1, .ep = ep, .esp = sizes.gpus / ep, .pp = 1, .edp = 1};
  e.workload.batch = 1;
  e.workload.sequence = sizes.tokens;
  e.workload.capacity_factor = sizes.capacity_factor;
  if (sizes.capacity_factor <= 0) e.workload.capacity_rows = 1;  // all else must be right before it is known
  validate(e);
  resolve_capacity(e);
  validate(e);
  return e;
}

PricedSchedule price_moe(const Experiment& experiment, const Plan& plan) {
  return without_cost_of(price_plan(experiment, plan), outside_moe);
}

Seconds moe_time(const Experiment& experiment, const Plan& plan) {
  std::vector<double> scratch;
  return analytic_makespan(price_moe(experiment, plan), scratch);
}

Plan plan_moe(const Experiment& experiment, const System& system) {
  const planners::PlanningTask task{experiment, system.plan, system.planner};
  return planners::find_planner(system.planner.name)
      .choose(task, [&](const Plan& plan) { return moe_time(experiment, plan); })
      .plan;
}

std::vector<Plan> in_degrees(const Experiment& experiment, Plan plan, std::span<const int> degrees) {
  const std::int64_t rows = layer_volumes(experiment).capacity;
  std::vector<Plan> plans;
  for (int degree : degrees) {
    if (degree > rows) continue;
    plan.forward_degree = plan.backward_degree = degree;
    plans.push_back(plan);
  }
  return plans;
}

Seconds fastest(const Experiment& experiment, std::span<const Plan> plans) {
  Seconds least(1e300);
  for (const Plan& plan : plans) least = std::min(least, moe_time(experiment, plan));
  return least;
}

Bytes arena_of(const Experiment& experiment, const Plan& plan) {
  const PricedSchedule priced = price_moe(experiment, plan);
  return memory_use(*priced.schedule, AnalyticBackend().run(priced)).arena;
}

Bytes allocated_of(const Experiment& experiment, const Plan& plan) {
  return framework_memory(build_schedule(experiment, plan)).allocated;
}

double milliseconds(Seconds time) {
  return time.value() * 1e3;
}

double percent_more(Seconds slow, Seconds fast) {
  return 100 * (slow / fast - 1);
}

}  // namespace dovetail::bench
