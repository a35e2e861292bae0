// SPDX-License-Identifier: Apache-2.0
#include "planners/search/climb.hpp"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "planners/contest.hpp"

namespace dovetail::planners {
namespace {

std::vector<Axis> climbed_axes(const PlanSpace& space) {
  std::vector<Axis> axes = space.volumes;
  axes.insert(axes.end(), space.arrangements.begin(), space.arrangements.end());
  Axis& memory = axes.emplace_back(space.keeping);
  memory.insert(memory.end(), space.restoring.begin(), space.restoring.end());
  const auto of_degrees = [&](const std::vector<int>& degrees, auto set) {
    Axis& axis = axes.emplace_back();
    for (const int degree : degrees) axis.push_back([=](Plan& plan) { set(plan, degree); });
  };
  of_degrees(space.forward_degrees, [](Plan& p, int degree) { p.forward_degree = p.backward_degree = degree; });
  if (!space.tied) {
    of_degrees(space.forward_degrees, [](Plan& p, int degree) { p.forward_degree = degree; });
    of_degrees(space.backward_degrees, [](Plan& p, int degree) { p.backward_degree = degree; });
  }
  Axis& gradients = axes.emplace_back();
  for (const GradSync sync : space.grad_syncs)
    if (sync != GradSync::Partitioned) gradients.push_back([sync](Plan& plan) { plan.grad_sync = sync; });
  return axes;
}

// The step of which less memory is missing is better, then the faster one. `rounding`: a share of the time that counts
// as nothing.
bool better(const StepEstimate& a, const StepEstimate& b, Bytes limit, double rounding = 0) {
  const auto missing = [&](const StepEstimate& e) { return std::max(e.peak - limit, Bytes(0)); };
  if (missing(a) != missing(b)) return missing(a) < missing(b);
  return a.time < b.time * (1 - rounding);
}

using Estimated = std::pair<StepEstimate, Plan>;

// The plans that the task allows and that are estimated, the best first.
std::vector<Estimated> best_first(const PlanningTask& task, const std::vector<Plan>& plans, Bytes limit) {
  std::vector<Estimated> all;
  for (const Plan& plan : plans)
    if (allowed(task, plan))
      if (const std::optional<StepEstimate> step = task.estimate(plan)) all.emplace_back(*step, plan);
  std::ranges::stable_sort(
      all, [&](const StepEstimate& a, const StepEstimate& b) { return better(a, b, limit); }, &Estimated::first);
  return all;
}

Estimated climbed_from(const PlanningTask& task, const std::vector<Axis>& axes, Estimated best, Bytes limit) {
  for (bool again = true; again;) {
    again = false;
    for (const Axis& axis : axes)
      for (const Setting& set : axis) {
        Plan plan = best.second;
        set(plan);
        if (plan == best.second || plan.order == Order::ReadyFirst || !allowed(task, plan)) continue;
        const std::optional<StepEstimate> step = task.estimate(plan);
        if (!step || !better(*step, best.first, limit, 1e-6)) continue;
        best = {*step, std::move(plan)};
        again = true;
      }
  }
  return best;
}

}  // namespace

std::vector<Plan> climbed(const PlanningTask& task, const PlanSpace& space, const std::vector<Plan>& known,
                          Bytes limit) {
  constexpr std::size_t most_starts = 3;  // by choice
  const std::vector<Axis> axes = climbed_axes(space);
  std::vector<Plan> plans = known, starts;
  for (const auto& [step, plan] : best_first(task, known, limit)) starts.push_back(without_choices(plan));
  for (const Estimated& start : best_first(task, starts, limit) | std::views::take(most_starts))
    plans.push_back(climbed_from(task, axes, start, limit).second);
  const std::vector<Estimated> found = best_first(task, plans, limit);
  std::vector<Plan> promising;
  for (const auto& [step, plan] : found)
    if (step.time <= found.front().first.time * clearly_slower && std::ranges::count(promising, plan) == 0)
      promising.push_back(plan);
  return promising;
}

}  // namespace dovetail::planners
