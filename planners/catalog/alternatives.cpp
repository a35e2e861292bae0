// SPDX-License-Identifier: Apache-2.0
// Chooses among the plans that its system lists, which a user of the framework can set. As much is recomputed as the
// first plans of the list do that fit the memory, since a step that computes more again is slower.
#include "planners/catalog/alternatives.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/plan/knob_table.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

Plan with_base(Plan plan, const Plan& base) {
  copy_knobs(KnobClass::Pipeline, base, plan);
  if (!plan.recompute.has(Recompute::Full)) plan.recompute = plan.recompute | base.recompute;
  return plan;
}

// Plans that recompute the same parts together, in the order in which these come first.
std::vector<std::vector<Plan>> by_recomputed_parts(const std::vector<Plan>& plans) {
  std::vector<std::vector<Plan>> groups;
  for (const Plan& plan : plans) {
    const auto same = std::ranges::find_if(
        groups, [&](const std::vector<Plan>& group) { return group.front().recompute == plan.recompute; });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(plan);
  }
  return groups;
}

class Alternatives final : public Planner {
 public:
  std::string_view name() const override { return "alternatives"; }
  std::string_view chooses() const override { return "what a user of the framework can set"; }
  std::vector<Plan> bases(const PlanningTask& task) const override { return alternatives(task); }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    const std::vector<Plan> all = alternatives(task);
    if (all.empty()) {
      task.choices.require(task.base, task.experiment);  // this and the next throw the reason
      evaluate(task.base);
      throw InputError("planner alternatives: none of the system's plans can be built");
    }
    for (std::vector<Plan> group : by_recomputed_parts(all)) {
      const std::size_t settings = group.size();
      while (!group.empty()) {
        Contest contest(task, evaluate);
        contest.propose(group);
        const Plan best = contest.best();
        if (fits(best, task))
          return contest.finish(name(), fmt::format("the fastest of {} settings of the framework that recompute as "
                                                    "little as fits",
                                                    settings));
        std::erase(group, best);
      }
    }
    Contest smallest(evaluate);
    smallest.propose(
        *std::ranges::min_element(all, {}, [&](const Plan& plan) { return task.steps->peak(task.experiment, plan); }));
    return smallest.finish(name(), "none fits the memory; this one holds least");
  }
};

}  // namespace

std::vector<Plan> alternatives(const PlanningTask& task) {
  std::vector<Plan> plans;
  for (const Plan& listed : task.choices.alternatives.empty() ? std::vector{task.base} : task.choices.alternatives) {
    Plan plan = with_base(listed, task.base);
    if (task.hold) task.hold(plan);
    const bool runs = !refusal_of([&] { task.choices.require(plan, task.experiment); });
    if (runs && !refusal(plan, task.experiment) && std::ranges::count(plans, plan) == 0) plans.push_back(plan);
  }
  return plans;
}

const Planner& alternatives_planner() {
  static const Alternatives planner;
  return planner;
}

}  // namespace dovetail::planners
