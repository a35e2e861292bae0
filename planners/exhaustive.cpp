// The oracle of all other planners: evaluates every pair of candidate degrees, uniform over layers. Gradients are
// synchronised as the base plan says; partitioned ones are tried, for each backward degree, in the slices of
// partition_gradients and in those of with_dense and after.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

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

class Exhaustive final : public Planner {
 public:
  std::string_view name() const override { return "exhaustive"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    const std::vector<int> degrees = allowed_degrees(task);
    // Chunks of attention are those of both passes.
    const bool tied = task.choices.tie_degrees || task.base.scope == Scope::Block;
    Contest contest(evaluate);
    std::vector<std::vector<Plan>> backward;
    for (int degree : degrees) backward.push_back(backward_plans(task, degree));
    for (std::size_t f = 0; f < degrees.size(); ++f)
      for (std::size_t b = 0; b < degrees.size(); ++b) {
        if (tied && f != b) continue;
        for (Plan plan : backward[b]) {
          plan.forward_degree = degrees[f];
          if (f == b || !refusal(plan, task.experiment)) contest.propose(plan);  // degrees may not fit one another
        }
      }
    const Plan& best = contest.best();
    const bool partitioned = best.grad_sync == GradSync::Partitioned;
    PlanChoice choice = contest.finish(
        name(), fmt::format("fastest of all {} degrees {}{}", tied ? "tied" : "forward x backward",
                            fmt::join(degrees, ", "), partitioned ? ", gradients sliced in three ways each" : ""));
    choice.report.regret = 0;
    return choice;
  }
};

}  // namespace

const Planner& exhaustive() {
  static const Exhaustive planner;
  return planner;
}

}  // namespace dovetail::planners
