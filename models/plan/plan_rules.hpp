// SPDX-License-Identifier: Apache-2.0
// The rules of plans: they say which can be built for an experiment, and why the others cannot.
#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {

// The subject of a rule.
struct RuledPlan {
  const Plan& plan;
  const Experiment& experiment;
  const Experiment& micro_batch;  // the experiment of one micro-batch
  const LayerVolumes& volumes;    // of a layer with one micro-batch
};

// A rule between knobs, or between knobs and the experiment.
struct PlanRule {
  std::string_view name;
  std::string_view knobs;             // those that it refuses, separated by spaces
  std::string_view help;              // one sentence
  void (*require)(const RuledPlan&);  // throws InputError with the knob's place, such as /plan/scope
};

// In the order in which validate() asks for them.
std::span<const PlanRule> plan_rules();

// Throws InputError: a knob value not built yet ("plan.scope batch is not built yet; built: layer, moe"), a number of
// micro-batches that does not divide the batch, or the first rule that the plan breaks.
void validate(const Plan& plan, const Experiment& experiment);

// Hands every rule to `use`, with its subject, in the order of validate(). Throws InputError for a value that is not
// built, or a number of micro-batches that does not divide the batch: rules ask for sizes.
void for_each_rule(const Plan& plan, const Experiment& experiment,
                   const std::function<void(const PlanRule&, const RuledPlan&)>& use);

}  // namespace dovetail
