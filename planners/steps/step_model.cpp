// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/step_model.hpp"

#include <algorithm>
#include <utility>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/steps/refusal.hpp"

namespace dovetail::planners {
namespace {

PredictedStep told_by(const StepPrediction& step, const Experiment& e) {
  PredictedStep told{step.time(), step.stage_peaks(), step.metrics(), {}};
  if (step.is_exact() && !e.cluster.network) told.lower_bound = step.lower_bound();
  return told;
}

}  // namespace

Bytes PredictedStep::peak() const {
  return std::ranges::max(stage_peaks);
}

bool StepModel::is_worth_estimating(const Experiment& e) {
  constexpr int few = 512;  // layers x samples, by choice
  return e.workload.phases == Phases::Training && !e.cluster.network && e.workload.layers * e.workload.batch >= few;
}

std::optional<StepEstimate> StepModel::estimate(const Experiment& e, const Plan& plan, Detail detail) {
  if (const std::optional<InputError> refused = refusal(plan, e)) {
    if (first_refusal_.empty()) first_refusal_ = refused->what();
    return std::nullopt;
  }
  return if_answered([&] {
    const StageCosts& costs = costs_.of(e, plan);
    const Seconds hop = costs_.hop(e, plan);
    ++estimated_;
    return detail == Detail::Quick ? quick_estimate(e, plan, costs, hop)
                                   : planners::estimate(e, plan, costs, hop, orders_);
  });
}

StepModel::Key StepModel::key_of(const Experiment& e, const Plan& plan) {
  const Parallelism& p = e.parallelism;
  Key key{e.workload.batch, p.token_repeats(), p.pp, p.mp, p.dp, p.ep, p.esp, p.edp};
  for (const Knob& knob : knobs()) append_value(knob, plan, key);
  return key;
}

const StepPrediction& StepModel::step(const Key& key, const Experiment& e, const Plan& plan) {
  if (last_ && key == last_key_) return *last_;
  last_.reset();  // before the next one takes memory
  last_.emplace(e, plan);
  last_key_ = key;
  Known& known = known_[key];
  if (!known.time) ++predicted_;
  known.time = last_->time();
  known.built = last_->built();
  return *last_;
}

const StepPrediction& StepModel::step(const Experiment& e, const Plan& plan) {
  return step(key_of(e, plan), e, plan);
}

const PredictedStep& StepModel::predicted(const Experiment& e, const Plan& plan) {
  const Key key = key_of(e, plan);
  if (const std::optional<PredictedStep>& whole = known_[key].whole) return *whole;
  const StepPrediction& prediction = step(key, e, plan);
  return known_[key].whole.emplace(told_by(prediction, e));
}

PredictedStep StepModel::exact(const Experiment& e, const Plan& plan) {
  const Key key = key_of(e, plan);
  const std::optional<PredictedStep>& known = last_ && key == last_key_ ? predicted(e, plan) : known_[key].whole;
  return known && known->lower_bound ? *known : told_by(StepPrediction::exact(e, plan), e);
}

// The time of a single micro-batch needs no timeline.
Seconds StepModel::time(const Experiment& e, const Plan& plan) {
  const Key key = key_of(e, plan);
  Known& known = known_[key];
  if (known.time) return *known.time;
  if (plan.micro_batches > 1) return step(key, e, plan).time();
  known.time = analytic_makespan(price_plan(e, plan), scratch_);
  ++predicted_;
  return *known.time;
}

int StepModel::built(const Experiment& e, const Plan& plan) {
  return known_[key_of(e, plan)].built;
}

Bytes StepModel::peak(const Experiment& e, const Plan& plan) {
  return predicted(e, plan).peak();
}

}  // namespace dovetail::planners
