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

// The planner's bases, as they are and with its degrees.
std::vector<Plan> plans_of(const Planner& planner, const PlanningTask& task) {
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
  return plans;
}

std::optional<StepEstimate> best_of(const std::vector<Plan>& plans, const PlanningTask& task, Pipeline way) {
  std::optional<StepEstimate> best;
  for (Plan plan : plans) {
    set_pipeline(plan, way);
    if (task.hold) task.hold(plan);
    const std::optional<StepEstimate> step = task.estimate(plan);
    if (step && (!best || better(*step, *best, task.experiment.cluster.device.memory))) best = step;
  }
  return best;
}

}  // namespace

std::vector<Outlook> outlooks(const Planner& planner, const PlanningTask& task, const std::vector<Pipeline>& ways) {
  if (!task.by_estimate || !StepModel::is_worth_estimating(task.experiment)) return {};
  const bool staged = task.experiment.parallelism.pp > 1;
  if (!staged && std::ranges::any_of(ways, [](Pipeline way) { return way.micro_batches == 1; })) return {};
  const std::vector<Plan> plans = plans_of(planner, task);
  constexpr double far_too_large = 1.1;  // by choice
  const Bytes limit = task.experiment.cluster.device.memory, most = limit * far_too_large;
  std::vector<Pipeline> small_first = ways;
  std::ranges::stable_sort(small_first, std::ranges::greater(), &Pipeline::micro_batches);
  std::vector<Outlook> found;
  bool any_fits = false, any_near = true;  // of micro-batches of the size before
  for (std::size_t i = 0; i < small_first.size(); ++i) {
    const Pipeline way = small_first[i];
    if (i > 0 && way.micro_batches != small_first[i - 1].micro_batches) {
      if (any_fits && !any_near) break;
      any_near = false;
    }
    const std::optional<StepEstimate> best = best_of(plans, task, way);
    found.push_back({way, best});
    any_fits |= best && best->held <= limit;
    any_near |= !best || best->held <= most;
  }
  std::ranges::stable_sort(found, {}, [](const Outlook& each) { return each.way.micro_batches; });
  return found;
}

std::optional<StepEstimate> outlook(const Planner& planner, const PlanningTask& task,
                                    const std::vector<Pipeline>& ways) {
  std::optional<StepEstimate> best;
  for (const Outlook& each : outlooks(planner, task, ways))
    if (each.step && (!best || better(*each.step, *best, task.experiment.cluster.device.memory))) best = each.step;
  return best;
}

}  // namespace dovetail::planners
