// SPDX-License-Identifier: Apache-2.0
// Chooses experts that are broadcast to all ranks instead of receiving rows (FasterMoE section 4.1). The paper shadows
// the most loaded ones, one more as long as its latency falls. Here messages have equal sizes, so that a step's time
// depends on how many experts are shadowed, how many are left to any owner, and the load of the fullest one left. The
// smallest set for each pair of the latter two is evaluated, which leaves out no better one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "planners/closed_form/layer_times.hpp"
#include "planners/closed_form/shadow_latency.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

Plan with_shadows(Plan plan, std::span<const int> experts) {
  plan.shadowed_experts.assign(experts.begin(), experts.end());
  std::ranges::sort(plan.shadowed_experts);
  return plan;
}

std::string describe_shadows(const Plan& plan) {
  if (plan.shadowed_experts.empty()) return "no shadowed expert";
  return fmt::format("shadowed expert{} {}", plan.shadowed_experts.size() == 1 ? "" : "s",
                     fmt::join(plan.shadowed_experts, ", "));
}

class Shadowing final : public Planner {
 public:
  std::string_view name() const override { return "shadowing"; }
  std::string_view chooses() const override { return "shadowed experts"; }
  std::vector<Plan> bases(const PlanningTask& task) const override {
    Plan unshadowed = task.base;
    unshadowed.shadowed_experts.clear();
    if (task.experiment.model.dense()) return {unshadowed};
    const std::optional<Plan> shadowed = if_answered([&] {
      const ShadowLatency latency(task.experiment, unshadowed);
      return with_shadows(unshadowed, {latency.by_load().begin(), latency.experts_to_shadow()});
    });
    if (!shadowed) return {task.base};  // nothing can be shadowed at a known cost
    return {unshadowed, *shadowed};
  }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    PlanningTask unshadowed = task;
    unshadowed.base.shadowed_experts.clear();
    allowed_degrees(unshadowed);  // throws where the base plan itself cannot be built
    Contest contest(task, evaluate);
    contest.propose(degree_plans(unshadowed, unshadowed.base));
    if (contest.empty()) contest.propose(simplest(unshadowed));
    if (task.experiment.model.dense())
      return contest.finish(name(), "no expert is shadowed: the model has none", describe_shadows);
    std::optional<PlanChoice> with_shadowed;
    const std::optional<InputError> refused = refusal_of([&] {
      validate(with_shadows(contest.best(), std::array{0}), task.experiment);
      with_shadowed = with_best_set(unshadowed, contest);
    });
    if (with_shadowed) return *std::move(with_shadowed);
    return contest.finish(name(), fmt::format("no expert is shadowed: {}", refused->message()), describe_shadows);
  }

 private:
  PlanChoice with_best_set(const PlanningTask& task, Contest& contest) const {
    const ShadowLatency latency(task.experiment, task.base);
    const auto propose = [&](std::span<const int> experts) {
      contest.propose(degree_plans(task, with_shadows(task.base, experts)));
    };
    const std::size_t by_paper = latency.experts_to_shadow(), experts = latency.by_load().size();
    propose({latency.by_load().begin(), by_paper});
    const std::size_t local = latency.experts_of_an_owner();
    // Large models have thousands of sets, each a whole step: those after as much work as a search has are not looked
    // at.
    constexpr double most_layers = 5'000, experts_like_a_layer = 2'000;  // to put a set together takes time as well
    const double layers = static_cast<double>(task.experiment.workload.layers) * task.base.micro_batches;
    double work = 0;
    for (std::size_t left = local; left > 0 && work < most_layers; --left)
      for (std::size_t count = 0; count < experts && work < most_layers; ++count) {
        if (latency.of_weights(count) >= contest.best_time()) break;  // as have all larger ones
        const std::vector<int> set = latency.smallest_set(count, left);
        work += static_cast<double>(experts) / experts_like_a_layer;
        if (latency.of_weights(set.size()) >= contest.best_time()) continue;
        propose(set);
        work += layers;
      }
    std::string reason = fmt::format(
        "{}; the fullest expert takes {:.3g} times the mean; by FasterMoE's latency {} would be shadowed",
        describe_shadows(contest.best()), latency.imbalance(), by_paper == 0 ? "none" : std::to_string(by_paper));
    if (work >= most_layers) reason += "; not all sets were looked at";
    return contest.finish(name(), std::move(reason), describe_shadows);
  }
};

}  // namespace

const Planner& shadowing() {
  static const Shadowing planner;
  return planner;
}

}  // namespace dovetail::planners
