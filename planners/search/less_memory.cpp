// SPDX-License-Identifier: Apache-2.0
#include "planners/search/less_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "models/price/build_schedule.hpp"
#include "planners/steps/held_over.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {

int nearest_degree(const std::vector<int>& degrees, int wanted) {
  return *std::ranges::min_element(degrees, {}, [wanted](int degree) { return std::abs(degree - wanted); });
}

std::vector<Plan> plans_of_less_memory(const Plan& from, const PlanSpace& space, bool tight, bool least) {
  std::vector<Plan> plans;
  const int most = tight ? space.forward_degrees.back() : nearest_degree(space.forward_degrees, 8);
  for (const Axis* ways : {&space.keeping, &space.restoring})
    for (const Setting& restore : *ways) {
      Plan plan = from;
      restore(plan);
      const bool ring = plan.buffers != Buffers::PerChunk;
      const bool smallest = plan.buffers == Buffers::Single;  // with more chunks smaller still
      if (least && !smallest) continue;
      if (ring && plan.order == Order::DispatchFirst) plan.order = Order::Alternate;
      if (plan.split == Split::Capacity)
        plan.forward_degree = plan.backward_degree = smallest ? most : from.forward_degree;
      plan.backward_degrees.clear();
      plans.push_back(std::move(plan));
    }
  return plans;
}

bool weights_exceed(std::span<const Plan> plans, const Experiment& experiment, Bytes limit) {
  std::map<std::pair<ExpertSharding, int>, Plan> shardings;
  for (const Plan& plan : plans) shardings.try_emplace({plan.expert_sharding, plan.sharding_repeats}, plan);
  return !shardings.empty() && std::ranges::all_of(shardings, [&](const auto& sharding) {
    Plan plan = without_choices(sharding.second);
    plan.grad_sync = GradSync::After;
    plan.forward_degree = plan.backward_degree = 1;
    return !refusal(plan, experiment) && held_over(build_schedule(experiment, plan), false) > limit;
  });
}

}  // namespace dovetail::planners
