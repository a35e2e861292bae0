// SPDX-License-Identifier: Apache-2.0
// From a question's candidates to the numbers of the rows of a report.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/pipeline/question.hpp"
#include "models/results/result.hpp"
#include "models/time/backend.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

// Builds, prices and runs the plan. A plan that does not fit the memory gives numbers like any other.
SystemResult evaluate(const Experiment& experiment, const std::string& name, const planners::PlanChoice& choice,
                      Backend& backend, Arenas arenas = Arenas::Planned);

// The experiment as the result's system runs it.
Experiment as_run(Experiment experiment, const SystemResult& result);

// Chooses and evaluates on one question, and remembers: what other systems chose are rivals of a planner that looks at
// all plans, and what a backend has already said is not asked again. Every system may choose micro-batches and the
// schedule of its pipeline stages (planners/task/pipeline_choice.hpp). Question and backend must outlive it.
class Evaluation {
 public:
  // `ask`: how planners compare plans; by the analytic model where it is empty.
  Evaluation(const Question& question, Backend& backend, planners::Evaluator ask = {});

  // The question's experiment as the system runs it.
  const Experiment& experiment_of(const System& system);

  // Lets the system's planner complete its plan. Knobs that the user has set, in the experiment file or by
  // --set plan.x=y, hold whatever the planner says. Throws InputError where the candidate cannot do what is asked.
  planners::PlanChoice choose(const Candidate& candidate);
  SystemResult evaluate(const Candidate& candidate, const planners::PlanChoice& choice,
                        Arenas arenas = Arenas::Planned);
  // As result_of_step() says, with all that planners have found out.
  std::optional<SystemResult> result_of_step(const Candidate& candidate, const planners::PlanChoice& choice);

 private:
  using Settings = std::function<void(Plan&)>;

  planners::PlanningTask task_of(const Candidate& candidate);
  planners::PlanChoice complete(const Candidate& candidate, const planners::Evaluator& ask);
  planners::PlanChoice plan(const Candidate& candidate, planners::PlanningTask task, const Settings& hold,
                            const planners::Evaluator& ask);
  static std::vector<Candidate> others_than(const std::string& name);
  std::set<std::string> without_prospects(const std::vector<Candidate>& candidates);
  std::vector<Plan> choices_of_others(const std::string& name);
  bool measured_otherwise() const;
  planners::Outcome try_out(const Plan& plan);

  const Question& question_;
  Backend& backend_;
  const std::shared_ptr<planners::StepModel> steps_ = std::make_shared<planners::StepModel>();
  const planners::Evaluator analytic_, ask_;
  const Settings settings_;                            // that the user has fixed; empty: none
  std::map<std::string, std::optional<Plan>> chosen_;  // by shipped systems; none: it cannot
  std::vector<std::pair<Plan, planners::Outcome>> tried_;
  std::optional<Experiment> repeating_;  // the experiment with ranks that repeat tokens, once a system has asked for it
};

// The same for one candidate, by the analytic model.
planners::PlanChoice choose_plan(const Question& question, const Candidate& candidate);

}  // namespace dovetail::bench
