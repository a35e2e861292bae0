// SPDX-License-Identifier: Apache-2.0
// Takes the base plan as it is. Only gradient slices that a partitioned plan leaves open are filled in.
#include <fmt/format.h>

#include <array>

#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {
namespace {

class Fixed final : public Planner {
 public:
  std::string_view name() const override { return "fixed"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    Plan plan = task.base;
    std::string reason = "the plan as given";
    const bool training = task.experiment.workload.phases == Phases::Training;
    if (training && plan.grad_sync == GradSync::Partitioned && plan.gradient_slices.empty() &&
        plan.backward_degrees.empty()) {
      const std::array degrees{plan.backward_degree};
      const LayerTimes times = layer_times(task.experiment, task.base);
      plan = with_partition(plan, partition_gradients(times, plan.comm_streams, degrees));
      reason += fmt::format(", gradients in {} slices", plan.gradient_slices.size());
    }
    Contest contest(evaluate);
    contest.propose(plan);
    return contest.finish(name(), std::move(reason));
  }
};

}  // namespace

const Planner& fixed() {
  static const Fixed planner;
  return planner;
}

}  // namespace dovetail::planners
