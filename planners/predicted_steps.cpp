// SPDX-License-Identifier: Apache-2.0
#include "planners/predicted_steps.hpp"

#include <utility>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/time/analytic_backend.hpp"

namespace dovetail::planners {

PredictedSteps::Key PredictedSteps::key_of(const Experiment& experiment, const Plan& plan) {
  Key key{experiment.workload.batch, experiment.parallelism.token_repeats()};
  for (const Knob& knob : knobs()) append_value(knob, plan, key);
  return key;
}

const StepPrediction& PredictedSteps::step(const Key& key, const Experiment& experiment, const Plan& plan) {
  if (last_ && key == last_key_) return *last_;
  last_.reset();  // before the next one takes memory
  last_.emplace(experiment, plan);
  last_key_ = key;
  known_[key].time = last_->time();
  known_[key].built = last_->built();
  return *last_;
}

const StepPrediction& PredictedSteps::step(const Experiment& experiment, const Plan& plan) {
  return step(key_of(experiment, plan), experiment, plan);
}

// The time of a single micro-batch needs no timeline.
Seconds PredictedSteps::time(const Experiment& experiment, const Plan& plan) {
  const Key key = key_of(experiment, plan);
  std::optional<Seconds>& time = known_[key].time;
  if (time) return *time;
  if (plan.micro_batches > 1) return step(key, experiment, plan).time();
  time = analytic_makespan(price_plan(experiment, plan), scratch_);
  return *time;
}

int PredictedSteps::built(const Experiment& experiment, const Plan& plan) {
  return known_[key_of(experiment, plan)].built;
}

Bytes PredictedSteps::peak(const Experiment& experiment, const Plan& plan) {
  const Key key = key_of(experiment, plan);
  std::optional<Bytes>& peak = known_[key].peak;
  if (!peak) peak = step(key, experiment, plan).peak();
  return *peak;
}

}  // namespace dovetail::planners
