// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's search as a planner of one workload: climbs the degrees from the smallest while steps get faster. Degrees
// of both passes together; where they may differ, then each by itself.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <functional>

#include "planners/closed_form/gradient_partition.hpp"
#include "planners/online/granularity_search.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

class DegreeClimb {
 public:
  DegreeClimb(const PlanningTask& task, const Evaluator& evaluate)
      : task_(task), contest_(evaluate), degrees_(allowed_degrees(task)) {
    for (int degree : degrees_) names_.push_back(std::to_string(degree));
    if (task.base.grad_sync == GradSync::Partitioned && task.experiment.workload.phases == Phases::Training)
      times_ = layer_times(task.experiment, task.base);
  }

  PlanChoice choose() {
    const bool tied = task_.choices.tie_degrees || task_.base.scope == Scope::Block;
    int forward = climb([&](int degree) { return plan(degree, degree); }), backward = forward;
    if (!tied) {
      backward = climb([&](int degree) { return plan(forward, degree); });
      forward = climb([&](int degree) { return plan(degree, backward); });
    }
    return contest_.finish("granularity_search",
                           fmt::format("climbed the {} degrees {} while steps got faster",
                                       tied ? "tied" : "forward and backward", fmt::join(degrees_, ", ")));
  }

 private:
  Plan plan(int forward, int backward) const {
    Plan plan = task_.base;
    plan.forward_degree = forward;
    plan.backward_degree = backward;
    plan.backward_degrees.clear();
    if (!times_) return plan;
    const std::array degrees{backward};
    return with_partition(plan, partition_gradients(*times_, plan.comm_streams, degrees));
  }

  // The online search at a single load: an evaluation is a step.
  int climb(const std::function<Plan(int)>& plan_with) {
    const StepSize step;
    GranularitySearch search({names_, "", 1, {}}, exact_granularity);
    for (;;) {
      const Plan plan = plan_with(degrees_[search.choose(step)]);
      constexpr Seconds refused(1e300);  // degrees that do not fit one another
      const Seconds time = refusal(plan, task_.experiment) ? refused : contest_.time_of(plan);
      if (const auto answer = search.answer(step.load())) return degrees_[*answer];
      search.report(time);
    }
  }

  const PlanningTask& task_;
  Contest contest_;
  std::vector<int> degrees_;
  std::vector<std::string> names_;
  std::optional<LayerTimes> times_;
};

class Granularity final : public Planner {
 public:
  std::string_view name() const override { return "granularity_search"; }
  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    return DegreeClimb(task, evaluate).choose();
  }
};

}  // namespace

const Planner& granularity_search() {
  static const Granularity planner;
  return planner;
}

}  // namespace dovetail::planners
