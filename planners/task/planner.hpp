// SPDX-License-Identifier: Apache-2.0
// A planner searches plans of one experiment for the fastest by an evaluator.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "models/plan/system.hpp"
#include "models/question/experiment.hpp"
#include "models/results/result.hpp"
#include "planners/steps/step_model.hpp"

namespace dovetail::planners {

// Makespan of one training step under a plan; any backend may stand behind it.
using Evaluator = std::function<Seconds(const Plan&)>;

// A plan's result. `fits`: the device memory.
struct Outcome {
  Seconds time;
  bool fits = true;
};
using Trial = std::function<Outcome(const Plan&)>;

struct PlanningTask {
  const Experiment& experiment;
  Plan base;              // knobs that the system fixes
  PlannerChoice choices;  // what is left to choose
  // Plans that compete whatever the planner thinks of them, such as other systems' choices.
  std::vector<Plan> rivals = {};
  // Sets the knobs that the user has fixed; a plan that this changes is not looked at. Empty: none are fixed.
  std::function<void(Plan&)> hold = {};
  // How the result will be measured, where that is not by the evaluator: on a described network, by a simulator. A
  // planner that searches by the evaluator lets the best of its plans, and the rivals, compete by this.
  Trial trial = {};
  // Shared by all tasks of one question, so that none of its steps is predicted twice.
  std::shared_ptr<StepModel> steps = std::make_shared<StepModel>();
  // Whether plans that are clearly slower by an estimate are left out, where the evaluator is the analytic model and
  // estimates are worth it. Otherwise every plan is evaluated.
  bool by_estimate = false;

  // None where steps are not estimated, where the plan is refused and where a cost is missing. None too for a single
  // micro-batch without pipeline stages, whose step depends on how its gradients are sliced.
  std::optional<StepEstimate> estimate(const Plan& plan) const {
    const bool alone = experiment.parallelism.pp == 1 && plan.micro_batches == 1;
    if (!by_estimate || alone || !StepModel::is_worth_estimating(experiment)) return std::nullopt;
    return steps->estimate(experiment, plan);
  }
};

struct PlanChoice {
  Plan plan;
  PlannerReport report;
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual std::string_view name() const = 0;
  // The knobs that it chooses beside degrees and pipeline, in words: "gradient slices"; empty: none.
  virtual std::string_view chooses() const { return ""; }
  // Plans whose degrees it looks at, with or without slices of gradients.
  virtual std::vector<Plan> bases(const PlanningTask& task) const { return {task.base}; }
  virtual PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const = 0;
};

}  // namespace dovetail::planners
