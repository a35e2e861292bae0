// SPDX-License-Identifier: Apache-2.0
// The costs of the parts of a pipeline stage, for a rank and a micro-batch, from schedules of one and two layers.
// Layers of one kind are alike, so that a model's step is estimated from these and never built (step_estimate.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "models/question/stage_layout.hpp"
#include "planners/steps/built_stage.hpp"

namespace dovetail::planners {

// The passes take so long where the host is ahead as they begin. After a wait of theirs it no longer is, and that
// counts.
struct PartCosts {
  Seconds forward, backward;
  Seconds pair;     // the two of two micro-batches beside each other, where the plan has pairs
  Seconds weights;  // the part of the backward pass that is a unit of its own in halves
  Seconds launches_forward, launches_backward;  // of the host
  Seconds launches_weights;                     // in these
  int waits_forward = 0, waits_backward = 0;    // of the host, for the device
  Seconds reduce;                               // the exposed part of reducing gradients, once in a step
  Seconds update;                               // after that: norm, update, gathering of weights
  Bytes persistent;                             // weights, gradients, states
  Bytes held;                                   // rows that a micro-batch holds between its passes
};

void add(const PartCosts& further, PartCosts& part);

struct StageCosts {
  PartCosts dense, moe;                 // a layer of that kind; 0 where the model has none
  PartCosts first, last;                // what the first and last stage have beside layers
  Seconds pass_forward, pass_backward;  // of the host at the begin of each pass, beside its launches
  Bytes working;                        // beside what is persistent or held, at the peak of a layer
};

// If one stage has both ends of the model on several stages, as in a V: an embedding that both ends need is there
// once.
StageCosts with_both_ends(StageCosts costs, const Experiment& experiment, const StageLayout& layout);

// A kind of stage, for any costs. The experiment is laid out (with_layout()); of the plan all but its pipeline counts.
class BuiltStage {
 public:
  // Throws InputError where the plan is refused.
  BuiltStage(const Experiment& experiment, const Plan& plan);
  // Both throw InputError where a cost is missing.
  StageCosts costs(const Shared<Calibration>& calibration) const;
  Seconds hop(const Shared<Calibration>& calibration) const;  // how long its rows take to the next stage

 private:
  Experiment micro_batch_;
  Plan plan_;
  BuiltPasses passes_;
  std::optional<BuiltPairs> pairs_;  // where the plan has pairs
  std::optional<BuiltSteps> steps_;  // where the passes alone do not tell when a step ends
};

// For one question: its cluster, model and costs. Looks at each kind of stage once. As for BuiltStage, all but
// the pipeline of a plan counts.
class StageCostTable {
 public:
  // Throws InputError where the plan is refused or a cost is missing.
  const StageCosts& of(const Experiment& experiment, const Plan& plan);

  // How long the rows of a micro-batch take to the next stage.
  Seconds hop(const Experiment& experiment, const Plan& plan);

  long looked_at() const { return static_cast<long>(known_.size()); }

 private:
  const BuiltPasses::Times& passes(const Experiment& stage, const Plan& plan, Backward backward);

  std::map<std::vector<std::int64_t>, StageCosts> known_;
  std::map<std::vector<std::int64_t>, BuiltPasses::Times> passes_;
  std::map<std::vector<std::int64_t>, Seconds> hops_;
};

}  // namespace dovetail::planners
