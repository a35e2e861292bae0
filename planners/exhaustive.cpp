// The oracle of all other planners: evaluates every plan of the stated space. Of SearchSpace::Degrees that is every
// pair of candidate degrees, with partitioned gradients sliced in three ways each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planners/contest.hpp"
#include "planners/plan_space.hpp"

namespace dovetail::planners {
namespace {

std::vector<Plan> structures(const PlanningTask& task, const PlanSpace& space) {
  std::vector<Axis> axes = space.volumes;
  axes.insert(axes.end(), space.arrangements.begin(), space.arrangements.end());
  axes.push_back(space.keeping);
  axes.back().insert(axes.back().end(), space.restoring.begin(), space.restoring.end());
  Plan base = task.base;
  base.backward_degrees.clear();
  return combinations(base, axes);
}

// Times are the same for all degrees, and for all arrangements.
void propose_all(const PlanningTask& task, const PlanSpace& space, const Plan& structure, Contest& contest) {
  std::optional<LayerTimes> times;
  const bool tied = space.tied || structure.scope == Scope::Block;
  const bool peers = task.choices.space == SearchSpace::Plans && structure.split == Split::Peers;
  for (int forward : space.forward_degrees)
    for (int backward : space.backward_degrees) {
      if ((tied && forward != backward) || (peers && std::max(forward, backward) > 1)) continue;
      Plan plan = structure;
      plan.forward_degree = forward;
      plan.backward_degree = backward;
      Plan unsliced = plan;
      if (unsliced.grad_sync == GradSync::Partitioned && unsliced.gradient_slices.empty())
        unsliced.grad_sync = GradSync::After;
      if (refusal(unsliced, task.experiment)) continue;
      if (!times) times = layer_times(task.experiment, structure);
      for (const Plan& with : gradient_plans(plan, space, task.experiment, *times))
        if (allowed(task, with)) contest.propose(with);
    }
}

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
    Contest contest(evaluate);
    for (const Plan& structure : structures(task, space)) propose_all(task, space, structure, contest);
    const bool tied = space.tied || task.base.scope == Scope::Block;
    const bool partitioned = contest.best().grad_sync == GradSync::Partitioned;
    const bool wide = task.choices.space == SearchSpace::Plans;
    PlanChoice choice = contest.finish(
        name(), wide ? fmt::format("fastest of all combinations of {}", space.words)
                     : fmt::format("fastest of all {} degrees {}{}", tied ? "tied" : "forward x backward",
                                   fmt::join(space.forward_degrees, ", "),
                                   partitioned ? ", gradients sliced in three ways each" : ""));
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
