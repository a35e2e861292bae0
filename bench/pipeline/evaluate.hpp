// From an experiment and a system, or a plan, to the numbers of one row of a report.
#pragma once
#include <string>

#include "bench/pipeline/question.hpp"
#include "models/results/result.hpp"
#include "models/time/backend.hpp"
#include "planners/planner.hpp"

namespace dovetail::bench {

struct Choice {
  Plan plan;
  PlannerReport report;
};

// Lets the system's planner complete its plan; `evaluate` compares plans for it, the analytic backend where it is
// empty. Knobs that the user has set, in the experiment file or by --set plan.x=y, hold whatever the planner says.
Choice choose_plan(const Question& question, const Candidate& candidate, const planners::Evaluator& evaluate = {});

// Builds, prices and runs the plan. A plan that does not fit the memory gives numbers like any other.
SystemResult evaluate(const Experiment& experiment, const std::string& name, const Choice& choice, Backend& backend,
                      Arenas arenas = Arenas::Planned);

}  // namespace dovetail::bench
