// The unified planner: the fastest plan of the whole space that fits the memory, proven where the search ends before
// its budget. The analytic model ranks; the evaluator, which may be a simulator or a machine, decides among the first.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "planners/analytic_evaluator.hpp"
#include "planners/contest.hpp"
#include "planners/registry.hpp"
#include "planners/search/plan_search.hpp"

namespace dovetail::planners {
namespace {

// Plans that the evaluator sees: one for each makespan, since plans with equal ones often run the same ops.
constexpr std::size_t finalists = 6;

std::string describe(const Proof& proof) {
  const std::string looked_at =
      fmt::format("of up to {:.3g} plans {} were predicted{}, the others ruled out by bounds{}", proof.points,
                  proof.predicted, proof.refused > 0 ? fmt::format(" ({} too large)", proof.refused) : "",
                  proof.optimal() ? "" : " or not looked at");
  if (proof.optimal()) return "no plan of the space is faster; " + looked_at;
  return fmt::format("no plan of the space is faster than {:.4g} ms, {:.2g} % below; {}", proof.bound.value() * 1e3,
                     100 * (1 - proof.bound / proof.best), looked_at);
}

class Dovetail final : public Planner {
 public:
  std::string_view name() const override { return "dovetail"; }

  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override {
    const auto start = std::chrono::steady_clock::now();
    const Bytes limit = task.experiment.cluster.device.memory;
    std::vector<Plan> known = task.rivals;
    known.push_back(task.base);
    SearchResult found = search_plans(task, known, limit);
    check(!found.plans.empty(), "no plan of the space can be built");
    Contest contest(evaluate);
    Seconds last;
    std::size_t proposed = 0;
    for (const Prediction& p : found.plans) {
      if (proposed == finalists) break;
      if (proposed > 0 && p.time <= last * (1 + 1e-9)) continue;
      contest.propose(p.plan);
      last = p.time;
      ++proposed;
    }
    const bool feasible = found.plans.front().peak <= limit;
    for (const Plan& rival : task.rivals)
      if (feasible && allowed(task, rival) && peak_memory(task.experiment, rival) <= limit) contest.propose(rival);
    PlanChoice choice =
        contest.finish(name(), feasible ? describe(found.proof) : "no plan fits: the one that lacks least");
    choice.report.evaluations += found.proof.predicted;
    choice.report.front = std::move(found.front);
    if (feasible) choice.report.proof = std::move(found.proof);
    choice.report.time = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return choice;
  }
};

}  // namespace

const Planner& dovetail() {
  static const Dovetail planner;
  return planner;
}

}  // namespace dovetail::planners
