// Which experts are broadcast to all ranks instead of receiving rows (FasterMoE section 4.1): the most loaded ones, one
// more as long as that pays by the paper's latency, or by the evaluator, which has the last word.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "planners/contest.hpp"
#include "planners/layer_times.hpp"
#include "planners/open_plans.hpp"
#include "planners/shadow_latency.hpp"

namespace dovetail::planners {
namespace {

Plan with_shadows(Plan plan, std::span<const int> experts) {
  plan.shadowed_experts.assign(experts.begin(), experts.end());
  std::ranges::sort(plan.shadowed_experts);
  return plan;
}

std::string describe(const Plan& plan) {
  if (plan.shadowed_experts.empty()) return "no shadowed expert";
  return fmt::format("shadowed expert{} {}", plan.shadowed_experts.size() == 1 ? "" : "s",
                     fmt::join(plan.shadowed_experts, ", "));
}

class Shadowing final : public Planner {
 public:
  std::string_view name() const override { return "shadowing"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    const Plan base = with_shadows(task.base, {});
    Contest contest(evaluate);
    PlanningTask unshadowed = task;
    unshadowed.base = base;
    for (const Plan& plan : open_plans(unshadowed)) contest.propose(plan);
    const ShadowLatency latency(task.experiment, base);
    if (const auto why_not = refusal(with_shadows(base, {latency.by_load().begin(), 1}), task.experiment))
      return contest.finish(name(), fmt::format("no expert is shadowed: {}", why_not->what()), describe);
    const std::size_t by_paper = latency.experts_to_shadow();
    for (std::size_t count = 1; count < latency.by_load().size(); ++count) {
      const Seconds before = contest.best_time();
      for (const Plan& plan : open_plans(task, with_shadows(base, {latency.by_load().begin(), count})))
        contest.propose(plan);
      if (count > by_paper && contest.best_time() >= before) break;
    }
    std::string reason =
        fmt::format("{}; the fullest expert takes {:.3g} times the mean; by FasterMoE's latency {} would be shadowed",
                    describe(contest.best()), latency.imbalance(), by_paper == 0 ? "none" : std::to_string(by_paper));
    return contest.finish(name(), std::move(reason), describe);
  }
};

}  // namespace

const Planner& shadowing() {
  static const Shadowing planner;
  return planner;
}

}  // namespace dovetail::planners
