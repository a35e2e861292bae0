#include "bench/pipeline/evaluate.hpp"

#include <algorithm>
#include <functional>
#include <memory>

#include "bench/cli/knob_place.hpp"
#include "models/base/errors.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/plan_costs.hpp"
#include "models/price/price.hpp"
#include "models/price/speed_events.hpp"
#include "planners/analytic_evaluator.hpp"
#include "planners/registry.hpp"

namespace dovetail::bench {
namespace {

using Settings = std::function<void(Plan&)>;

// Empty where the user has fixed no knob.
Settings settings_of(const Question& question) {
  const auto of_plan = [](const std::string& set) { return set.starts_with("plan.") || set.starts_with("plan="); };
  if (question.request.file.empty() && std::ranges::none_of(question.request.set, of_plan)) return {};
  return plan_settings(question.request);
}

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
void hold_to_request(const Settings& hold, Choice& choice) {
  if (!hold) return;
  Plan plan = choice.plan;
  hold(plan);
  if (plan == choice.plan) return;
  choice.plan = plan;
  choice.report.reason += ", then changed as the user set";
  choice.report.runner_up.reset();  // they were about the planner's own choice
  choice.report.regret.reset();
}

// What the planners of the other shipped systems choose. Systems that cannot be built here choose nothing.
std::vector<Plan> choices_of_others(const Question& question, const Settings& settings, const Candidate& candidate) {
  const planners::Evaluator evaluate = planners::analytic_evaluator(question.experiment);
  std::vector<Plan> choices;
  for (const std::string& name : known_names("systems")) {
    FilesRead files;
    System other = load_system(name, files);
    if (name == candidate.system.name || other.planner.space == SearchSpace::Plans) continue;
    try {
      if (settings) settings(other.plan);
      const planners::PlanningTask task{question.experiment, other.plan, other.planner};
      choices.push_back(planners::find_planner(other.planner.name).choose(task, evaluate).plan);
    } catch (const InputError&) {
    }
  }
  return choices;
}

}  // namespace

Choice choose_plan(const Question& question, const Candidate& candidate, const planners::Evaluator& evaluate) {
  try {
    const Settings settings = settings_of(question);
    Plan base = candidate.system.plan;
    if (settings) settings(base);
    const Settings hold = hold_of(settings, base);
    const planners::Planner& planner = planners::find_planner(candidate.system.planner.name);
    planners::PlanningTask task{question.experiment, base, candidate.system.planner};
    if (candidate.system.planner.space == SearchSpace::Plans) {
      task.hold = hold;
      task.rivals = choices_of_others(question, settings, candidate);
    }
    planners::PlanChoice planned =
        planner.choose(task, evaluate ? evaluate : planners::analytic_evaluator(question.experiment));
    Choice choice{std::move(planned.plan), std::move(planned.report)};
    hold_to_request(hold, choice);
    validate(choice.plan, question.experiment);
    require_costs(choice.plan, question.experiment);
    return choice;
  } catch (const InputError& error) {
    throw at_its_place(error, question, candidate);
  }
}

SystemResult evaluate(const Experiment& experiment, const std::string& name, const Choice& choice, Backend& backend,
                      Arenas arenas) {
  SystemResult result;
  result.system = name;
  result.plan = choice.plan;
  result.planner = choice.report;
  result.backend = backend.name();
  result.schedule =
      std::make_shared<const Schedule>(split_by_class(experiment, build_schedule(experiment, choice.plan)));
  PricedSchedule priced = price(result.schedule, experiment);
  inject(experiment.events, priced);
  backend.prepare(experiment);
  result.timeline = backend.run(priced);
  result.metrics = metrics(*result.schedule, result.timeline);
  result.lower_bound = lower_bound(priced);
  result.plan_bound = plan_bound(priced);
  result.memory = memory_use(*result.schedule, result.timeline, arenas);
  const Bytes available = experiment.cluster.device.memory;
  result.feasible = result.memory.peak <= available;
  if (!result.feasible) result.missing = result.memory.peak - available;
  return result;
}

}  // namespace dovetail::bench
