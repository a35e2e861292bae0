// SPDX-License-Identifier: Apache-2.0
// The unified planner: the fastest plan of the whole space that fits the memory, proven where the search ends before
// its budget. The analytic model ranks; the evaluator, which may be a simulator or a machine, decides among the first.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "planners/catalog/registry.hpp"
#include "planners/closed_form/shadow_latency.hpp"
#include "planners/layouts/layout_search.hpp"
#include "planners/layouts/open_axes.hpp"
#include "planners/search/plan_search.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/pipelines.hpp"

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

// Exchanges run beside what makes gradients of weights later, which bounds of layers do not know, and a listed program
// may have any order.
bool has_bounds(const Plan& plan) {
  return plan.delay_weight_gradient == DelayedWeights::None && !plan.lists_program();
}

// Bounds are about what the evaluator says. Results that come about otherwise prove nothing.
std::string describe_trials(const Proof& proof, std::size_t trials) {
  return fmt::format(
      "the fastest of {} that were tried as the result is measured, the first of {} predicted ones and other systems' "
      "choices; other plans may be faster, since the prediction does not know all that the result does",
      trials, proof.predicted);
}

// A user's settings may contradict this planner's own base, but not that of another system, whose choice then
// stands for the knobs that the space leaves alone. Throws what is wrong with the base where no choice may be built.
PlanningTask with_allowed_base(PlanningTask task) {
  const std::optional<InputError> refused = refusal_of([&] { allowed_degrees(task); });
  if (!refused) return task;
  const auto rival = std::ranges::find_if(task.rivals, [&](const Plan& plan) { return allowed(task, plan); });
  if (rival == task.rivals.end()) throw InputError(*refused);
  task.base = without_choices(*rival);
  return task;
}

// The layout of the task, in as many micro-batches as the planner may choose.
std::vector<ParallelLayout> layouts_of(const PlanningTask& task) {
  const Experiment& e = task.experiment;
  std::vector<ParallelLayout> found;
  for (const Pipeline& way : e.parallelism.pp > 1 ? pipelines(task) : std::vector{pipeline_of(task.base)}) {
    const ParallelLayout layout{e.parallelism, e.workload.batch / way.micro_batches, way.micro_batches};
    if (std::ranges::count(found, layout) == 0) found.push_back(layout);
  }
  std::ranges::stable_sort(found, {}, &ParallelLayout::micro_batch);
  return found;
}

// The best plans that the search over layouts finds on this one, beginning with the known ones, where steps are
// estimated. It knows knobs that the space leaves as they are, such as recomputed parts and sharded weights.
std::vector<Plan> best_on_layout(const PlanningTask& task, const std::vector<Plan>& known) {
  const Experiment& e = task.experiment;
  if (!task.by_estimate || !StepModel::is_worth_estimating(e) || !e.workload.router_loads.empty()) return {};
  LayoutSearch search({e, {}, e.cluster.device.memory, task.hold, {}, nullptr, layouts_of(task), task.steps});
  std::vector<Plan> plans;
  for (const LaidOutPlan& found : search.best({{}, known}, finalists)) plans.push_back(found.plan);
  return plans;
}

std::vector<Plan> first_of(const std::vector<Prediction>& plans) {
  std::vector<Plan> first;
  Seconds last;
  for (const Prediction& p : plans) {
    if (first.size() == finalists) break;
    if (!first.empty() && p.time <= last * (1 + 1e-9)) continue;
    first.push_back(p.plan);
    last = p.time;
  }
  return first;
}

// Shadowed experts are outside of the space. Their broadcasts pay where they run beside everything else: more and more
// experts of each owner, as long as that is faster.
void try_shadows(const PlanningTask& task, Contest& contest) {
  if (!contest.best().shadowed_experts.empty()) return;
  const Plan best = contest.best();
  const ShadowLatency latency(task.experiment, without_choices(best));
  for (const CommStreams streams : {CommStreams::InterIntra, CommStreams::One}) {
    Plan plan = best;
    plan.order = Order::ReadyFirst;
    plan.comm_streams = streams;
    Seconds before = contest.best_time() * 1.02;  // fewer may not pay where more do
    for (std::size_t left = latency.experts_of_an_owner(); left-- > 1;) {
      plan.shadowed_experts = latency.smallest_set(0, left);
      std::ranges::sort(plan.shadowed_experts);
      if (!allowed(task, plan) || !fits(plan, task)) break;
      const Seconds time = contest.time_of(plan);
      if (time >= before) break;
      before = time;
    }
  }
}

// Two micro-batches that overlap are outside of the space too.
void try_pairs(const PlanningTask& task, Contest& contest) {
  const Plan best = contest.best();
  if (best.scope == Scope::Batch || best.micro_batches < 2) return;
  for (const Setting& set : pairs_axis()) {
    Plan plan = without_choices(best);
    set(plan);
    plan.host_sync = false;
    plan.split = Split::Capacity;
    if (!plan.pipeline().pairs) plan.pipeline_schedule = pipeline_schedule("1f1b");
    if (allowed(task, plan) && fits(plan, task)) contest.propose(plan);
  }
}

class Dovetail final : public Planner {
 public:
  std::string_view name() const override { return "dovetail"; }
  std::string_view chooses() const override { return "every knob"; }

  PlanChoice choose(const PlanningTask& asked, const Evaluator& evaluate) const override {
    const PlanningTask task = with_allowed_base(asked);
    const auto start = std::chrono::steady_clock::now();
    const Bytes limit = task.experiment.cluster.device.memory;
    std::vector<Plan> known = task.rivals;
    known.push_back(task.base);
    for (Plan& plan : best_on_layout(task, known)) known.push_back(std::move(plan));
    SearchResult found = search_plans(task, known, limit);
    if (found.plans.empty())
      found.plans.push_back({simplest(task), {}, task.steps->peak(task.experiment, simplest(task))});
    const bool feasible = found.plans.front().peak <= limit;
    std::vector<Plan> competing = first_of(found.plans);
    for (const Plan& rival : task.rivals)
      if (feasible && allowed(task, rival) && fits(rival, task)) competing.push_back(rival);
    const Evaluator judge = task.trial && feasible ? by_trial(task.trial) : evaluate;
    Contest contest(judge);
    for (const Plan& plan : competing) contest.propose(plan);
    if (feasible) static_cast<void>(refusal_of([&] { try_pairs(task, contest); }));  // some have no known cost
    if (feasible && !climbs(task))                                         // their order would have to be built whole
      static_cast<void>(refusal_of([&] { try_shadows(task, contest); }));  // some have no known cost
    const bool searched = std::ranges::find(found.plans, contest.best(), &Prediction::plan) != found.plans.end();
    const bool bounded = has_bounds(task.base) && has_bounds(contest.best());
    std::string why = bounded || task.trial || !feasible
                          ? reason(found.proof, contest, feasible, bool{task.trial})
                          : fmt::format(
                                "the fastest of {} predicted plans; others may be faster, because bounds do not "
                                "know gradients of weights that are made later",
                                found.proof.predicted);
    if (climbs(task)) why += "; found by changing knobs by estimates, because a step takes long to predict";
    PlanChoice choice = contest.finish(name(), std::move(why));
    choice.report.evaluations += found.proof.predicted;
    if (!searched && !choice.plan.shadowed_experts.empty()) choice.report.reason = with_shadows + choice.report.reason;
    if (!searched && choice.plan.scope == Scope::Batch) choice.report.reason = with_pairs + choice.report.reason;
    if (searched && !task.trial) choice.report.front = std::move(found.front);
    if (searched && feasible && !task.trial && bounded) choice.report.proof = std::move(found.proof);
    choice.report.time = Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return choice;
  }

 private:
  static inline const std::string with_pairs =
      "faster with two micro-batches that overlap, which are not searched; without them ";
  static inline const std::string with_shadows = "faster with shadowed experts, which are not searched; without them ";

  // A plan that turns out not to fit comes after all that fit, and one that cannot be tried after those.
  static Evaluator by_trial(const Trial& trial) {
    return [&trial](const Plan& plan) {
      const std::optional<Outcome> outcome = if_answered([&] { return trial(plan); });
      if (!outcome) return 10 * no_time;
      return outcome->fits ? outcome->time : no_time + outcome->time;
    };
  }

  static std::string reason(const Proof& proof, const Contest& contest, bool feasible, bool tried) {
    if (!feasible) return "no plan fits; this one lacks the least memory";
    return tried ? describe_trials(proof, contest.timed()) : describe(proof);
  }
};

}  // namespace

const Planner& dovetail() {
  static const Dovetail planner;
  return planner;
}

}  // namespace dovetail::planners
