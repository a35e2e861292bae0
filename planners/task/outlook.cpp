// SPDX-License-Identifier: Apache-2.0
#include "planners/task/outlook.hpp"

#include <algorithm>

#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

// A step that fits is better than one that does not. Among steps that fit the faster one is better, among others the
// smaller one.
bool better(const StepEstimate& a, const StepEstimate& b, Bytes limit) {
  const bool fits = a.held <= limit;
  if (fits != (b.held <= limit)) return fits;
  return fits ? a.time < b.time : a.held < b.held;
}

}  // namespace

std::optional<StepEstimate> outlook(const Planner& planner, const PlanningTask& task,
                                    const std::vector<Pipeline>& ways) {
  if (!task.by_estimate || !StepModel::is_worth_estimating(task.experiment)) return std::nullopt;
  const bool staged = task.experiment.parallelism.pp > 1;
  if (!staged && std::ranges::any_of(ways, [](Pipeline way) { return way.micro_batches == 1; })) return std::nullopt;
  constexpr int most = 4;  // a step of more chunks takes longer to look at, and is seldom much faster
  std::vector<Plan> plans;
  for (const Plan& base : planner.bases(task)) {
    plans.push_back(base);
    for (const int degree : task.choices.degrees) {
      if (degree > most) continue;
      Plan& plan = plans.emplace_back(without_choices(base));
      plan.forward_degree = plan.backward_degree = degree;
    }
  }
  std::optional<StepEstimate> best;
  for (const Pipeline way : ways)
    for (Plan plan : plans) {
      set_pipeline(plan, way);
      if (task.hold) task.hold(plan);
      const std::optional<StepEstimate> step = task.estimate(plan);
      if (step && (!best || better(*step, *best, task.experiment.cluster.device.memory))) best = step;
    }
  return best;
}

}  // namespace dovetail::planners
