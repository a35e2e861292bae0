// SPDX-License-Identifier: Apache-2.0
// All that Tutel adapts while it trains, at its best: linear or two-dimensional all-to-alls, the degree, and how
// experts that several ranks share meet their rows (sections 3.2 to 3.4).
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "models/base/names.hpp"
#include "planners/online/parallelism_router.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

std::string describe_strategy(const Plan& plan) {
  return fmt::format("{} all-to-alls at degree {}, {}", name_in(all_to_all_names, plan.all_to_all),
                     describe_degrees(plan), sharding_name(plan));
}

class TutelAdaptive final : public Planner {
 public:
  std::string_view name() const override { return "tutel_adaptive"; }
  std::string_view chooses() const override {
    return "linear or two-dimensional all-to-alls and how ranks share an expert";
  }
  std::vector<Plan> bases(const PlanningTask& task) const override {
    std::vector<Plan> plans;
    for (const Plan& sharded : sharding_plans(task.experiment, task.base))
      for (const AllToAll algorithm : {AllToAll::Linear, AllToAll::TwoDimensional}) {
        Plan& plan = plans.emplace_back(sharded);
        plan.all_to_all = algorithm;
        if (algorithm != task.base.all_to_all) plan.all_to_all_levels.clear();
      }
    return plans;
  }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    allowed_degrees(task);  // throws where the base plan itself cannot be built
    Contest contest(task, evaluate);
    std::vector<Plan> plans;
    for (const Plan& base : bases(task))
      for (Plan& plan : degree_plans(task, base)) plans.push_back(std::move(plan));
    contest.propose(plans);
    if (contest.empty()) contest.propose(simplest(task));
    std::string reason = fmt::format("{}, the fastest of all all-to-alls, degrees and ways to share experts",
                                     describe_strategy(contest.best()));
    return contest.finish(name(), std::move(reason), describe_strategy);
  }
};

}  // namespace

const Planner& tutel_adaptive() {
  static const TutelAdaptive planner;
  return planner;
}

}  // namespace dovetail::planners
