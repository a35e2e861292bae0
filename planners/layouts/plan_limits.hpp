// SPDX-License-Identifier: Apache-2.0
// The plans that a search over layouts may propose: those with the knobs that the user has fixed, and where they are
// for a training framework, those that it runs as they are.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "models/plan/system.hpp"
#include "planners/layouts/layout.hpp"

namespace dovetail::planners {

// The plan as a training framework runs it on a laid-out experiment: itself if the framework can run that, else the
// plan that it runs instead. Nothing where the framework has no such layout, which is no matter of the plan.
using AsRun = std::function<std::optional<Plan>(const Experiment&, const Plan&)>;

class PlanLimits {
 public:
  // `fixed` sets the knobs that the user has fixed. An empty function limits nothing.
  PlanLimits(std::function<void(Plan&)> fixed, AsRun as_run) : fixed_(std::move(fixed)), as_run_(std::move(as_run)) {}

  bool any() const { return fixed_ || as_run_; }
  bool holds(const Plan& plan, const Experiment& e) const;
  // The knobs that the user has fixed, and then as the framework runs it; it may undo them.
  void hold(Plan& plan, const Experiment& e) const;
  Plan as_run(const Plan& plan, const Experiment& e) const { return as_run_ ? as_run_(e, plan).value_or(plan) : plan; }

  // The layouts that the framework has.
  std::vector<ParallelLayout> layouts(const Experiment& e, const LayoutRequest& request) const;
  // A plan to begin with, which holds on one of these layouts where there is a framework. Knobs that the user has fixed
  // may need others of a system for the framework to run them. Nothing: no plan of these systems holds either.
  std::optional<Plan> first_plan(const Experiment& e, const std::vector<ParallelLayout>& layouts,
                                 const std::vector<System>& systems) const;

 private:
  std::function<void(Plan&)> fixed_;
  AsRun as_run_;
};

}  // namespace dovetail::planners
