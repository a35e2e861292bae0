// SPDX-License-Identifier: Apache-2.0
// A published system or baseline: a preset of the plan space and who chooses its degrees.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/plan/system_rules.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Degrees: candidates for both passes, other knobs as the plan says. Plans: every knob that leaves the model as it is
// (planners/search/plan_space.hpp).
enum class SearchSpace { Degrees, Plans };
inline constexpr Names<SearchSpace, 2> search_space_names{
    {{"degrees", SearchSpace::Degrees}, {"plans", SearchSpace::Plans}}};

struct PlannerChoice {
  std::string name = "fixed";   // in planners/catalog/registry.cpp
  std::vector<int> degrees{1};  // candidates
  bool tie_degrees = true;      // forward degree = backward degree
  SearchSpace space = SearchSpace::Degrees;
  // The orders of micro-batches that the system has; empty: every one that the planner knows.
  std::vector<PipelineSchedule> pipeline_schedules = {};
  // Plans that a user of the system can choose among, the system's own first; empty: that one alone.
  std::vector<Plan> alternatives = {};

  // Limits of the system beyond those of plans.
  std::vector<const SystemRule*> rules = {};

  // Throws InputError for a plan that the system cannot run, or that is another one: those whose schedules are all in
  // halves are known by them.
  void require(const Plan& plan, const Experiment& experiment) const;
  // Searches over whole plans may have every schedule, and other systems those in halves only if they name them.
  bool may_pipe(PipelineSchedule schedule) const {
    if (pipeline_schedules.empty()) return space == SearchSpace::Plans || !entry_of(schedule).halves;
    return std::ranges::count(pipeline_schedules, schedule) > 0;
  }
};

// The choices of a search that may have every schedule.
inline PlannerChoice every_schedule() {
  PlannerChoice choices;
  choices.space = SearchSpace::Plans;
  return choices;
}

struct System {
  std::string name;
  std::string description;
  std::string source;
  Plan plan;
  PlannerChoice planner;
  std::optional<bool> sequence_parallel = {};  // where the experiment leaves it open and its groups allow it
  // Gathers of tokens over mp are repeated in the backward pass, where there are any, in place of keeping their
  // results.
  bool gathers_again = false;
};

// The system's plan for the experiment.
Plan plan_on(const System& system, const Experiment& experiment);

// Why ranks that share attention cannot repeat tokens with this plan in the experiment; empty: they can.
std::string no_repeats_because(const Plan& plan, const Experiment& experiment);

// Whether ranks that share attention repeat tokens where the system runs the experiment.
bool repeats_tokens(const System& system, const Experiment& experiment);

// The experiment as the system runs it, with the capacity that follows; empty: as it is.
std::optional<Experiment> as_run_by(const System& system, const Experiment& experiment);

}  // namespace dovetail
