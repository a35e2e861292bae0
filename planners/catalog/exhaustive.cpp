// SPDX-License-Identifier: Apache-2.0
// The oracle of all other planners: evaluates every plan of the stated space. For SearchSpace::Degrees it is every
// pair of candidate degrees, with partitioned gradients sliced in three ways each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "planners/search/plan_space.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

class Exhaustive final : public Planner {
 public:
  std::string_view name() const override { return "exhaustive"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    constexpr double most = 1e6;
    const PlanSpace space = plan_space(task);
    if (space.points() > most)
      throw InputError(
          fmt::format("planner exhaustive: {:.2g} plans, more than {:.0g}; fix knobs (--set plan.order=...) "
                      "or take another planner",
                      space.points(), most));
    Contest contest(task, evaluate);
    std::vector<Plan> plans;
    for_each_plan(task, space, [&](const Plan& plan) { plans.push_back(plan); });
    contest.propose(plans);
    if (contest.empty()) {
      evaluate(simplest(task));  // throws for costs that are missing
      throw InputError(fmt::format("planner exhaustive: none of the combinations of {} can be built", space.words));
    }
    const bool tied = space.tied || task.base.scope == Scope::Block;
    const bool partitioned = contest.best().grad_sync == GradSync::Partitioned;
    const bool wide = task.choices.space == SearchSpace::Plans;
    PlanChoice choice = contest.finish(
        name(), wide ? fmt::format("fastest of all combinations of {}", space.words)
                     : fmt::format("fastest of all {} degrees {}{}", tied ? "tied" : "forward x backward",
                                   fmt::join(space.forward_degrees, ", "),
                                   partitioned ? ", gradients sliced in three ways each" : ""));
    if (contest.left_out() == 0) choice.report.regret = 0;
    return choice;
  }
};

}  // namespace

const Planner& exhaustive() {
  static const Exhaustive planner;
  return planner;
}

}  // namespace dovetail::planners
