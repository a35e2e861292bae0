// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/knob_place.hpp"
#include "bench/pipeline/repeating_steps.hpp"
#include "models/base/errors.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/plan_costs.hpp"
#include "models/price/price.hpp"
#include "models/price/speed_events.hpp"
#include "models/question/capacity.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "planners/task/contest.hpp"
#include "planners/task/outlook.hpp"
#include "planners/task/pipeline_choice.hpp"

namespace dovetail::bench {
namespace {

using Settings = std::function<void(Plan&)>;

// Sets the knobs that the user has fixed.
Settings hold_of(const Settings& settings, const Plan& base) {
  if (!settings) return {};
  Plan probe;
  probe.backward_degree = 0;
  settings(probe);
  const bool clear = base.backward_degrees.empty() && probe.backward_degree != 0;
  return [settings, clear](Plan& plan) {
    settings(plan);
    if (clear) plan.backward_degrees.clear();
  };
}

// Puts the user's values over what the planner chose.
void hold_to_request(const Settings& hold, planners::PlanChoice& choice) {
  if (!hold) return;
  Plan plan = choice.plan;
  hold(plan);
  if (plan == choice.plan) return;
  choice.plan = plan;
  choice.report.reason += ", then changed as the user set";
  choice.report.runner_up.reset();  // they were about the planner's own choice
  choice.report.regret.reset();
}

// "degrees 1, 2, 4 and 8 (alike in both passes), micro-batches and their order"
std::string choices_text(const planners::Planner& planner, const PlannerChoice& choices,
                         const std::vector<planners::Pipeline>& ways) {
  std::vector<std::string> list;
  if (choices.space == SearchSpace::Plans)
    list.emplace_back("every knob");
  else if (!planner.chooses().empty())
    list.emplace_back(planner.chooses());
  if (choices.space != SearchSpace::Plans && choices.degrees.size() > 1)
    list.push_back(fmt::format("degrees {}{}", fmt::join(choices.degrees, " "),
                               choices.tie_degrees ? " (alike in both passes)" : ""));
  const int first = ways.front().micro_batches;
  if (std::ranges::any_of(ways, [&](const planners::Pipeline& way) { return way.micro_batches != first; }))
    list.emplace_back("micro-batches and their order");
  else if (ways.size() > 1)
    list.emplace_back("the order of micro-batches");
  return fmt::format("{}", fmt::join(list, ", "));
}

// Prices and runs the schedule. The prices of a long step take as much memory as counting that of its ranks does
// afterwards.
void add_times(const Experiment& experiment, Backend& backend, SystemResult& result) {
  PricedSchedule priced = price(result.schedule, experiment);
  inject(experiment.events, priced);
  backend.prepare(experiment);
  result.timeline = backend.run(priced);
  result.lower_bound = lower_bound(priced);
  result.plan_bound = plan_bound(priced);
  const bool launches = !priced.launch.empty();
  priced = {};
  result.metrics = metrics(*result.schedule, result.timeline);
  if (launches) result.metrics.launch_bound = launch_bound(*result.schedule, result.timeline);
}

}  // namespace

Evaluation::Evaluation(const Question& question, Backend& backend, planners::Evaluator ask)
    : question_(question),
      backend_(backend),
      analytic_(planners::analytic_evaluator(question.experiment, steps_)),
      ask_(std::move(ask)),
      settings_(fixed_knobs(question)) {}

const Experiment& Evaluation::experiment_of(const System& system) {
  if (!repeats_tokens(system, question_.experiment)) return question_.experiment;
  if (!repeating_) repeating_ = as_run_by(system, question_.experiment);  // alike for all that do
  return *repeating_;
}

planners::PlanChoice Evaluation::choose(const Candidate& candidate) {
  try {
    planners::PlanChoice choice = complete(candidate, ask_);
    validate(choice.plan, experiment_of(candidate.system));
    candidate.system.planner.require(choice.plan, experiment_of(candidate.system));
    require_costs(choice.plan, experiment_of(candidate.system));
    if (candidate.file.empty()) chosen_[candidate.system.name] = choice.plan;
    return choice;
  } catch (const InputError& error) {
    if (candidate.file.empty()) chosen_[candidate.system.name].reset();
    throw at_its_place(error, question_, candidate);
  }
}

planners::PlanningTask Evaluation::task_of(const Candidate& candidate) {
  planners::PlanningTask task{experiment_of(candidate.system), {}, candidate.system.planner};
  task.base = plan_on(candidate.system, task.experiment);
  task.steps = steps_;
  task.by_estimate = true;
  if (settings_) settings_(task.base);
  return task;
}

planners::PlanChoice Evaluation::complete(const Candidate& candidate, const planners::Evaluator& ask) {
  planners::PlanningTask task = task_of(candidate);
  if (ask) task.by_estimate = false;
  const Settings hold = hold_of(settings_, task.base);
  planners::PlanChoice choice = plan(candidate, task, hold, ask);
  hold_to_request(hold, choice);
  return choice;
}

planners::PlanChoice Evaluation::plan(const Candidate& candidate, planners::PlanningTask task, const Settings& hold,
                                      const planners::Evaluator& ask) {
  const planners::Planner& planner = planners::find_planner(candidate.system.planner.name);
  if (candidate.plan_file) return planner.choose(task, ask ? ask : analytic_);
  planners::PlanningTask held = task;
  held.hold = hold;
  if (!task.choices.alternatives.empty()) task.hold = hold;
  const std::vector<planners::Pipeline> ways = pipelines(held);
  const auto with_choices = [&](planners::PlanChoice choice) {
    choice.report.choices = choices_text(planner, task.choices, ways);
    return choice;
  };
  if (task.choices.space == SearchSpace::Plans) {
    task.hold = hold;
    task.rivals = choices_of_others(candidate.system.name);
    if (measured_otherwise())
      task.trial = [this](const Plan& plan) { return try_out(plan); };
    else if (ask_)
      task.trial = [this](const Plan& plan) { return planners::Outcome{ask_(plan), true}; };
    if (task.experiment.parallelism.pp > 1)
      return with_choices(planner.choose(task, ask ? ask : analytic_));  // the pipeline is part of its space
  }
  // A fixed plan is compared with nothing, so that its predicted time would be of no use.
  const bool alone = task.choices.name == "fixed" && ways.size() == 1;
  return with_choices(choose_with_pipeline(planner, task, ways,
                                           alone ? planners::Evaluator([](const Plan&) { return Seconds(0); }) : ask));
}

std::vector<Candidate> Evaluation::others_than(const std::string& name) {
  std::vector<Candidate> others;
  for (const std::string& other : known_names("systems")) {
    FilesRead files;
    Candidate candidate{load_system(other, files), "", "/plan"};
    if (other != name && candidate.system.planner.space != SearchSpace::Plans) others.push_back(std::move(candidate));
  }
  return others;
}

// The systems that estimates rule out: none of their plans fits, or another system is clearly faster.
std::set<std::string> Evaluation::without_prospects(const std::vector<Candidate>& candidates) {
  std::set<std::string> without;
  if (measured_otherwise() || ask_) return without;
  const Bytes limit = question_.experiment.cluster.device.memory;
  std::map<std::string, Seconds> times;
  for (const Candidate& candidate : candidates) {
    const planners::Planner& planner = planners::find_planner(candidate.system.planner.name);
    planners::PlanningTask task = task_of(candidate);
    task.hold = hold_of(settings_, task.base);
    const std::optional<planners::StepEstimate> step = planners::outlook(planner, task, planners::pipelines(task));
    if (step && step->held > limit)
      without.insert(candidate.system.name);
    else if (step)
      times[candidate.system.name] = step->time;
  }
  Seconds least = planners::no_time;
  for (const auto& [system, time] : times) least = std::min(least, time);
  for (const auto& [system, time] : times)
    if (time > least * planners::clearly_slower) without.insert(system);
  return without;
}

// Systems that cannot be built here choose nothing. Systems that are no candidates of the question choose by the
// analytic model, since really running plans takes long.
std::vector<Plan> Evaluation::choices_of_others(const std::string& name) {
  const std::vector<Candidate> others = others_than(name);
  const std::set<std::string> without = without_prospects(others);
  std::vector<Plan> choices;
  for (const Candidate& candidate : others) {
    const std::string& other = candidate.system.name;
    if (!chosen_.contains(other)) {
      if (without.contains(other)) continue;
      try {
        chosen_[other] = complete(candidate, {}).plan;
      } catch (const InputError&) {
        chosen_[other].reset();
      }
    }
    if (chosen_[other]) choices.push_back(*chosen_[other]);
  }
  return choices;
}

// The planners' model takes ranks as alike, and all layers and micro-batches.
bool Evaluation::measured_otherwise() const {
  const Experiment& e = question_.experiment;
  const BackendEntry* backend = find_backend(backend_.name());
  return backend == nullptr || !backend->planners_model || e.cluster.network ||
         e.workload.routing.kind == RoutingKind::Trace;
}

// Tries a plan without the experiment's events, because plans are made without them.
planners::Outcome Evaluation::try_out(const Plan& plan) {
  const auto known = std::ranges::find(tried_, plan, &std::pair<Plan, planners::Outcome>::first);
  if (known != tried_.end()) return known->second;
  Experiment undisturbed = question_.experiment;
  undisturbed.events.clear();
  const SystemResult result = bench::evaluate(undisturbed, "", {plan, {}}, backend_, Arenas::LeftOut);
  return tried_.emplace_back(plan, planners::Outcome{result.metrics.makespan, result.feasible}).second;
}

SystemResult Evaluation::evaluate(const Candidate& candidate, const planners::PlanChoice& choice, Arenas arenas) {
  const Experiment& experiment = experiment_of(candidate.system);
  steps_->forget_last();  // the whole step needs the room
  SystemResult result = bench::evaluate(experiment, candidate.system.name, choice, backend_, arenas);
  if (&experiment == &question_.experiment && experiment.events.empty())
    tried_.emplace_back(choice.plan, planners::Outcome{result.metrics.makespan, result.feasible});
  return result;
}

std::optional<SystemResult> Evaluation::result_of_step(const Candidate& candidate, const planners::PlanChoice& choice) {
  return bench::result_of_step(experiment_of(candidate.system), candidate.system.name, choice, *steps_);
}

planners::PlanChoice choose_plan(const Question& question, const Candidate& candidate) {
  AnalyticBackend backend;
  return Evaluation(question, backend).choose(candidate);
}

Experiment as_run(Experiment experiment, const SystemResult& result) {
  const Parallelism& groups = result.schedule->groups;
  if (groups.repeats_tokens() == experiment.parallelism.repeats_tokens()) return experiment;
  experiment.parallelism.sequence_parallel = groups.sequence_parallel;
  resolve_capacity(experiment);
  return experiment;
}

SystemResult evaluate(const Experiment& experiment, const std::string& name, const planners::PlanChoice& choice,
                      Backend& backend, Arenas arenas) {
  SystemResult result;
  result.system = name;
  result.plan = choice.plan;
  result.planner = choice.report;
  result.groups = experiment.parallelism;
  result.micro_batch = experiment.workload.batch / choice.plan.micro_batches;
  result.backend = backend.name();
  result.schedule =
      std::make_shared<const Schedule>(split_by_class(experiment, build_schedule(experiment, choice.plan)));
  add_times(experiment, backend, result);
  result.memory = memory_use(*result.schedule, result.timeline, arenas);
  const Bytes available = experiment.cluster.device.memory;
  result.feasible = result.memory.peak <= available;
  if (!result.feasible) result.missing = result.memory.peak - available;
  return result;
}

}  // namespace dovetail::bench
