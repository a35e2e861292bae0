// The oracle of all other planners: evaluates every plan that the task leaves open.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planners/contest.hpp"
#include "planners/open_plans.hpp"

namespace dovetail::planners {
namespace {

class Exhaustive final : public Planner {
 public:
  std::string_view name() const override { return "exhaustive"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    Contest contest(evaluate);
    for (const Plan& plan : open_plans(task)) contest.propose(plan);
    const bool partitioned = contest.best().grad_sync == GradSync::Partitioned;
    PlanChoice choice = contest.finish(
        name(), fmt::format("fastest of all {} degrees {}{}", ties_degrees(task) ? "tied" : "forward x backward",
                            fmt::join(allowed_degrees(task), ", "),
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
