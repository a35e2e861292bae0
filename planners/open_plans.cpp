#include "planners/open_plans.hpp"

#include <array>
#include <utility>

#include "planners/contest.hpp"
#include "planners/gradient_partition.hpp"

namespace dovetail::planners {
namespace {

// The base plan with this backward degree, once per way to slice its gradients.
std::vector<Plan> backward_plans(const PlanningTask& task, int degree) {
  Plan plan = task.base;
  plan.backward_degree = degree;
  plan.backward_degrees.clear();
  if (plan.grad_sync != GradSync::Partitioned || task.experiment.workload.phases == Phases::ForwardOnly) return {plan};
  const LayerTimes times = layer_times(task.experiment, task.base);
  const std::array degrees{degree};
  return {with_partition(plan, partition_gradients(times, plan.comm_streams, degrees)),
          with_slices_of(plan, GradSync::WithDense, times), with_slices_of(plan, GradSync::After, times)};
}

}  // namespace

bool ties_degrees(const PlanningTask& task) {
  return task.choices.tie_degrees || task.base.scope == Scope::Block;
}

std::vector<Plan> open_plans(const PlanningTask& task) {
  const std::vector<int> degrees = allowed_degrees(task);
  std::vector<std::vector<Plan>> backward;
  for (int degree : degrees) backward.push_back(backward_plans(task, degree));
  std::vector<Plan> plans;
  for (std::size_t f = 0; f < degrees.size(); ++f)
    for (std::size_t b = 0; b < degrees.size(); ++b) {
      if (ties_degrees(task) && f != b) continue;
      for (Plan plan : backward[b]) {
        plan.forward_degree = degrees[f];
        if (f == b || !refusal(plan, task.experiment)) plans.push_back(std::move(plan));  // degrees may not fit
      }
    }
  return plans;
}

std::vector<Plan> open_plans(PlanningTask task, const Plan& base) {
  task.base = base;
  try {
    return open_plans(task);
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace dovetail::planners
