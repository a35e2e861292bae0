// SPDX-License-Identifier: Apache-2.0
// Chooses the all-to-all that moves rows, in steps or fused, its protocol, and the degree with it (Tutel section 3.4
// and figure 20). The best choice depends on size and scale, and on what runs beside it, so every combination is
// evaluated.
#include <fmt/format.h>

#include "models/base/names.hpp"
#include "planners/closed_form/layer_times.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

std::string exchange(const Plan& plan) {
  std::string text(name_in(all_to_all_names, plan.all_to_all));
  if (plan.all_to_all_implementation == AllToAllImplementation::Fused) text += " fused";
  return text + fmt::format(" by {} messages", name_in(protocol_names, plan.protocol));
}

std::string describe_exchange(const Plan& plan) {
  return fmt::format("{} at degree {}", exchange(plan), describe_degrees(plan));
}

// The base plan's own levels are those of its own algorithm.
std::vector<Plan> exchanges_of(const Plan& base) {
  std::vector<Plan> plans;
  for (const auto& [name, algorithm] : all_to_all_names)
    for (const auto& [implementation_name, implementation] : all_to_all_implementation_names)
      for (const auto& [protocol_name, protocol] : protocol_names) {
        Plan& plan = plans.emplace_back(base);
        plan.all_to_all = algorithm;
        plan.all_to_all_implementation = implementation;
        plan.protocol = protocol;
        if (algorithm != base.all_to_all) plan.all_to_all_levels.clear();
      }
  return plans;
}

// The time of a chunk's all-to-all with nothing beside it.
Seconds time_alone(const Experiment& e, const Plan& plan) {
  return layer_times(e, plan).forward.moe.all_to_all.at(plan.forward_degree);
}

class AllToAllChoice final : public Planner {
 public:
  std::string_view name() const override { return "all_to_all_choice"; }
  std::string_view chooses() const override { return "linear or two-dimensional all-to-alls"; }
  std::vector<Plan> bases(const PlanningTask& task) const override { return exchanges_of(task.base); }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    allowed_degrees(task);  // throws where the base plan itself cannot be built
    Contest contest(task, evaluate);
    int exchanges = 0;
    std::vector<Plan> plans;
    for (const Plan& base : bases(task)) {
      std::vector<Plan> of_exchange = degree_plans(task, base);
      exchanges += of_exchange.empty() ? 0 : 1;
      for (Plan& plan : of_exchange) plans.push_back(std::move(plan));
    }
    contest.propose(plans);
    if (contest.empty()) contest.propose(simplest(task));
    const Plan& best = contest.best();
    Plan linear = best;
    linear.all_to_all = AllToAll::Linear;
    linear.all_to_all_implementation = AllToAllImplementation::PointToPoint;
    linear.protocol = Protocol::Simple;
    linear.all_to_all_levels.clear();
    std::string reason =
        fmt::format("{}, the fastest of {} exchanges and their degrees", describe_exchange(best), exchanges);
    if (linear != best)
      reason += fmt::format("; alone a chunk's all-to-all takes {:.4g} ms, linear by simple messages {:.4g} ms",
                            1e3 * time_alone(task.experiment, best).value(),
                            1e3 * time_alone(task.experiment, linear).value());
    return contest.finish(name(), std::move(reason), describe_exchange);
  }
};

}  // namespace

const Planner& all_to_all_choice() {
  static const AllToAllChoice planner;
  return planner;
}

}  // namespace dovetail::planners
