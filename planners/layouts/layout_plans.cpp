// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/layout_plans.hpp"

#include <algorithm>
#include <utility>

#include "planners/layouts/arrangements.hpp"
#include "planners/limits.hpp"
#include "planners/search/plan_space.hpp"
#include "planners/steps/least_state.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

Plan unsliced(Plan plan) {
  if (plan.grad_sync == GradSync::Partitioned && plan.gradient_slices.empty()) plan.grad_sync = GradSync::After;
  return plan;
}

bool leaves_slices_open(const LayoutQuestion& question) {
  Plan plan;
  if (question.hold) question.hold(plan);
  return plan.grad_sync == GradSync::Partitioned && plan.gradient_slices.empty();
}

}  // namespace

LayoutPlans::LayoutPlans(LayoutQuestion question)
    : question_(std::move(question)), to_be_sliced_(leaves_slices_open(question_)) {}

bool LayoutPlans::fits(const LaidOutPlan& plan) const {
  return plan.estimate.peak <= question_.limit && plan.peak <= question_.limit;
}

bool LayoutPlans::is_short(const LaidOutPlan& plan) const {
  return question_.experiment.workload.layers * plan.plan.micro_batches <= limits::short_step;
}

bool LayoutPlans::small() const {
  const Experiment& e = question_.experiment;
  return e.workload.layers * e.cluster.gpus() <= limits::small_question;
}

Plan LayoutPlans::held(Plan plan) const {
  if (question_.hold) question_.hold(plan);
  return unsliced(std::move(plan));
}

Plan LayoutPlans::as_run(const Plan& plan, const Experiment& e) const {
  return question_.as_run ? question_.as_run(e, plan).value_or(plan) : plan;
}

bool LayoutPlans::holds(const Plan& plan, const Experiment& e) const {
  if (to_be_sliced_ && pipelines_of(plan.pipeline().shape) == 2) return false;  // it has no slices
  if (question_.as_run && question_.as_run(e, plan) != plan) return false;
  if (!question_.hold) return true;
  Plan held = plan;
  question_.hold(held);
  return held == plan || unsliced(std::move(held)) == plan;
}

// The plans with the knobs that the user has fixed, as the framework runs them, and with what goes with these.
std::vector<Plan> LayoutPlans::held(std::vector<Plan> plans, const Experiment& e) {
  if (!question_.hold && !question_.as_run) return plans;
  std::vector<Plan> with;
  for (Plan& plan : plans) {
    plan = as_run(held(std::move(plan)), e);
    std::optional<Plan> legal = nearest_.find(plan, e, [&](const Plan& p) { return holds(p, e); });
    if (!legal) legal = plan;  // its refusal will be told
    if (std::ranges::count(with, *legal) == 0) with.push_back(*std::move(legal));
  }
  return with;
}

std::optional<Plan> LayoutPlans::nearest(const Plan& from, const Plan& changed, const Experiment& e) {
  const Keeps keeps = keeps_changes(from, changed);
  return nearest_.find(changed, e, [&](const Plan& plan) { return keeps(plan) && holds(plan, e); });
}

std::optional<LaidOutPlan> LayoutPlans::estimated(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                                  Detail detail) {
  if (!holds(plan, e)) return std::nullopt;
  const std::optional<StepEstimate> step = question_.steps->estimate(e, plan, detail);
  return step ? std::optional(LaidOutPlan{layout, plan, *step, {}, {}}) : std::nullopt;
}

// By the fastest pipeline of those that fit; where none fits, by the one that holds least, or by any where weights
// alone do not fit. Quick estimates say which pipelines are worth a look.
std::optional<LaidOutPlan> LayoutPlans::best_piped(const Experiment& e, const ParallelLayout& layout, const Plan& plan,
                                                   const PlannerChoice& choices) {
  std::vector<LaidOutPlan> ways;
  std::optional<LaidOutPlan> with_twice;  // the weights, which alone do not fit
  for (const Plan& way : held(piped(plan, layout, e, choices), e)) {
    if (refusal_of([&] { choices.require(way, e); })) continue;
    if (std::optional<LaidOutPlan> found = estimated(e, layout, way, Detail::Quick)) {
      if (found->estimate.persistent <= question_.limit)
        ways.push_back(*std::move(found));
      else if (pipelines_of(way.pipeline().shape) == 1)
        return found;
      else
        with_twice = std::move(found);
    }
  }
  std::ranges::stable_sort(ways, faster_by_estimate);
  std::optional<LaidOutPlan> best, least;
  for (const LaidOutPlan& way : ways) {
    if (best && best->estimate.time <= way.estimate.time) break;
    std::optional<LaidOutPlan> found = estimated(e, layout, way.plan);
    if (!found) continue;
    if (!least || found->estimate.held < least->estimate.held) least = found;
    if (found->estimate.peak <= question_.limit && (!best || faster_by_estimate(*found, *best)))
      best = std::move(found);
  }
  return best ? best : least ? least : with_twice;
}

// The plan with less and less memory, and more and more recomputed.
std::vector<Plan> LayoutPlans::recomputing(Plan plan) const {
  std::vector<Plan> plans;
  const EnumSet<Recompute> own = plan.recompute & always_recomputed;
  for (const EnumSet<Recompute>& parts : recomputed_parts()) {
    if (plan.restore == Restore::Keep) plan.recompute = parts.has(Recompute::Full) ? parts : parts | own;
    plan = held(std::move(plan));
    if (plans.empty() || plan != plans.back()) plans.push_back(plan);
  }
  return plans;
}

// Begins with what the last layout needed, because neighbours are alike.
std::optional<LaidOutPlan> LayoutPlans::fitting(const ParallelLayout& layout, const Plan& plan,
                                                const PlannerChoice& choices) {
  const Experiment e = laid_out(layout);
  if (least_state(e, plan.zero) > question_.limit) return std::nullopt;
  const std::vector<Plan> plans = recomputing(plan);
  const auto fits_in = [&](const std::optional<LaidOutPlan>& found) {
    return found && found->estimate.peak <= question_.limit;
  };
  std::size_t at = plans.size() > likely_ ? likely_ : 0;
  std::optional<LaidOutPlan> found = best_piped(e, layout, plans[at], choices);
  if (found && found->estimate.persistent > question_.limit) return found;
  if (fits_in(found)) {
    while (at > 0) {
      std::optional<LaidOutPlan> less = best_piped(e, layout, plans[--at], choices);
      if (less && !fits_in(less)) break;
      if (!less) continue;
      found = std::move(less);
      likely_ = at;
    }
    return found;
  }
  std::optional<LaidOutPlan> least = std::move(found);
  for (at = least ? at + 1 : 0; at < plans.size(); ++at) {
    found = best_piped(e, layout, plans[at], choices);
    if (!found) continue;
    if (plans.size() > 1) likely_ = at;
    if (fits_in(found)) return found;
    if (!least || found->estimate.held < least->estimate.held) least = std::move(found);
  }
  return least;
}

long LayoutPlans::predict(LaidOutPlan& plan) {
  const long before = question_.steps->predicted();
  const Experiment e = laid_out(plan.layout);
  predict_unsliced(plan, e);
  if (to_be_sliced_ && plan.plan.grad_sync != GradSync::Partitioned) {
    std::optional<LaidOutPlan> best;
    for (const Plan& sliced : sliced_plans(plan.plan, e)) {
      LaidOutPlan with = plan;
      with.plan = sliced;
      predict_unsliced(with, e);
      if (!best || with.time < best->time) best = std::move(with);
    }
    if (best) plan = *std::move(best);
  }
  return question_.experiment.workload.layers * (question_.steps->predicted() - before) *
         question_.steps->built(e, plan.plan);
}

void LayoutPlans::predict_unsliced(LaidOutPlan& plan, const Experiment& e) {
  const PredictedStep& step = question_.steps->predicted(e, plan.plan);
  plan.time = step.time;
  plan.peak = step.peak();
  plan.stage_peaks = step.stage_peaks;
  plan.metrics = step.metrics;
}

bool LayoutPlans::take_if_faster(LaidOutPlan plan, LaidOutPlan& best) {
  predict(plan);
  if (plan.time >= best.time * (1 - limits::rounding) || plan.peak > question_.limit) return false;
  best = std::move(plan);
  return true;
}

}  // namespace dovetail::planners
