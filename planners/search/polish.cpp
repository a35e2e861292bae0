// SPDX-License-Identifier: Apache-2.0
#include "planners/search/polish.hpp"

#include "planners/closed_form/layer_times.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

using LookAt = std::function<bool(Plan)>;

// Arrangements first: they are what helps only together.
std::vector<const Axis*> axes_of(const PlanSpace& space) {
  std::vector<const Axis*> axes;
  for (const Axis& axis : space.arrangements) axes.push_back(&axis);
  for (auto axis = space.volumes.rbegin(); axis != space.volumes.rend(); ++axis) axes.push_back(&*axis);
  return axes;
}

void change_one(const Plan& from, const PlanSpace& space, const LookAt& look_at) {
  for (const std::vector<Axis>* axes : {&space.volumes, &space.arrangements})
    for (const Axis& axis : *axes)
      for (const Setting& set : axis) {
        Plan plan = from;
        set(plan);
        if (!look_at(std::move(plan))) return;
      }
  for (int Plan::*degree : {&Plan::forward_degree, &Plan::backward_degree})
    for (int step : {-1, 1}) {
      Plan plan = from;
      plan.backward_degrees.clear();
      plan.*degree += step;
      if (!look_at(std::move(plan))) return;
    }
}

// Returns false when there is no more to look at.
bool reduce_in_each_way(Plan plan, const PlanningTask& task, const PlanSpace& space, const LookAt& look_at) {
  plan.gradient_slices.clear();
  plan.backward_degrees.clear();
  Plan unsliced = plan;
  unsliced.grad_sync = GradSync::After;
  const auto times = if_answered([&] { return layer_times(task.experiment, unsliced); });
  if (!times) return true;
  for (Plan& way : gradient_plans(plan, space, task.experiment, *times))
    if (!look_at(std::move(way))) return false;
  return true;
}

void change_two(const Plan& from, const PlanningTask& task, const PlanSpace& space, const LookAt& look_at) {
  const std::vector<const Axis*> axes = axes_of(space);
  for (std::size_t second = 1; second < axes.size(); ++second)
    for (std::size_t first = 0; first < second; ++first)
      for (const Setting& set_first : *axes[first])
        for (const Setting& set_second : *axes[second]) {
          Plan one = from, other = from;
          set_first(one);
          set_second(other);
          if (one == from || other == from) continue;
          set_second(one);
          if (!reduce_in_each_way(std::move(one), task, space, look_at)) return;
        }
}

}  // namespace

void polish(const PlanningTask& task, const PlanSpace& space, const LookAt& look_at,
            const std::function<const Plan*()>& best) {
  constexpr int rounds = 3;
  for (int round = 0; round < rounds && best() != nullptr; ++round) {
    const Plan from = *best();
    change_one(from, space, look_at);
    if (*best() == from) change_two(from, task, space, look_at);
    if (*best() == from) return;
  }
}

}  // namespace dovetail::planners
