// SPDX-License-Identifier: Apache-2.0
// dovetail plan: choose a plan and say why.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/commands/plan_online.hpp"
#include "bench/pipeline/answer.hpp"
#include "bench/pipeline/backend_option.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/evaluators.hpp"
#include "bench/pipeline/explain.hpp"
#include "bench/pipeline/export_flags.hpp"
#include "bench/pipeline/host_scale.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/pipeline/settings_text.hpp"
#include "bench/pipeline/step_ranges.hpp"
#include "bench/pipeline/ways_to_fit.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "models/files/plan_json.hpp"
#include "models/results/add_figures.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "reports/answer/table.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr auto plan_examples = R"(Examples:
  The fastest of all shipped systems that fits the memory:
    dovetail plan --cluster fsmoe-testbed-b --model mixtral-8x7b

  One system planned by another planner; the plan is kept for other commands:
    dovetail plan --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe --planner exhaustive --save-plan best.json
    dovetail simulate --cluster fsmoe-testbed-b --model mixtral-8x7b --plan best.json

  Step by step while capacity factors change: first over a trace, then as a training job would call it:
    dovetail plan --online --trace capacity-tutel --cluster fsmoe-testbed-b --model mixtral-8x7b --noise 0.02 --html online.html
    dovetail plan --online --state state.json --step f=1.5 --cluster fsmoe-testbed-b --model mixtral-8x7b
    dovetail plan --online --state state.json --report 0.412 --step f=1.6 --cluster fsmoe-testbed-b --model mixtral-8x7b

  Really run each plan that the planner asks about, with two ranks on this machine:
    dovetail plan --cluster fsmoe-testbed-b --model mixtral-8x7b --system tutel --evaluator host \
      --ranks 2 --tokens 128 --hidden 32 --measure-time 0.1

  The same online, each plan on a GPU that stands for one rank; its exchanges take their modelled times:
    dovetail plan --online --trace capacity-levels --evaluator cuda --cluster dgx-h100 --model mixtral-8x7b \
      --ranks 8 --tokens 8192 --hidden 4096 --expert-hidden 14336 --head-size 128

  A whole model in two pipeline stages on GPUs with less memory, planned by the unified planner:
    dovetail plan --cluster dgx-h100 --model qwen3-30b-a3b --nodes 2 --system dovetail --set parallelism.pp=2 \
      --set cluster.device.memory="72 GiB"

Times are milliseconds. Memory is GiB. Exit code 3 says that no plan fits the memory of a GPU; the message names the
missing bytes and the changes that would make a plan fit.)";

struct PlanOptions : Options {
  std::string planner, save;
  bool knobs = false, settings = false;
  OnlineOptions online;
  std::string evaluator = "analytic";
  exec::HostScale scale;
  double measure_time = 1;

  bool really_run() const { return evaluator_traits(evaluator).kind == ResultKind::Measured; }
  bool planners_model() const { return evaluator_traits(evaluator).planners_model; }
};

// Work that finding the best of all plans would take, in layers simulated.
double exhaustive_cost(const Question& question, const PlannerChoice& choices) {
  const auto degrees = static_cast<double>(choices.degrees.size());
  constexpr double ways_to_slice = 3;
  return (choices.tie_degrees ? degrees : degrees * degrees) * ways_to_slice * question.experiment.workload.layers;
}

// How much slower the choice is than the best of the exhaustive oracle's plans by the same evaluator, where that takes
// about a second, or a minute where plans really run.
void add_regret(const Question& question, const Candidate& candidate, const PlanOptions& options, Backend& backend,
                const planners::Evaluator& evaluate, planners::PlanChoice& choice) {
  const double affordable = options.really_run() ? 60 : options.planners_model() ? 10'000 : 500;
  if (candidate.system.planner.degrees.size() < 2) return;           // nothing was chosen
  if (candidate.system.planner.space == SearchSpace::Plans) return;  // its planner says itself
  const double cost = exhaustive_cost(question, candidate.system.planner) * choice.plan.micro_batches;
  if (choice.report.regret || cost > affordable) return;
  Candidate oracle = candidate;
  oracle.system.planner.name = "exhaustive";
  oracle.system.plan.micro_batches = choice.plan.micro_batches;
  oracle.system.plan.pipeline_schedule = choice.plan.pipeline_schedule;
  oracle.system.plan.program = choice.plan.program;
  const Seconds best = evaluate(Evaluation(question, backend, evaluate).choose(oracle).plan);
  choice.report.regret = std::max(0.0, evaluate(choice.plan) / best - 1);
}

Answers plan_all(const Question& question, const PlanOptions& options, Backend& backend) {
  const planners::Evaluator evaluator =
      make_evaluator(options.evaluator, question.experiment,
                     {Seconds(options.measure_time), static_cast<std::uint64_t>(options.seed)});
  Evaluation evaluation(question, backend, options.planners_model() ? planners::Evaluator() : evaluator);
  ProgressLine progress("plan", static_cast<int>(question.candidates.size()), options.talk());
  Answers answers =
      answer(question, evaluation, progress, options, [&](const Candidate& candidate, planners::PlanChoice& choice) {
        add_regret(question, candidate, options, backend, evaluator, choice);
      });
  std::ranges::stable_sort(answers.results, [](const SystemResult& a, const SystemResult& b) {
    if (a.feasible != b.feasible) return a.feasible;
    return a.feasible ? a.metrics.makespan < b.metrics.makespan : a.missing < b.missing;
  });
  return answers;
}

Exit refuse(const Report& report, const Question& question) {
  const SystemResult& nearest = report.results.front();
  const Device& device = report.experiment.cluster.device;
  const std::vector<std::string> ways = ways_to_fit(question, nearest.plan);
  say(fmt::format(
      "dovetail: no plan fits: {} needs {} of each {}, which has {}; {} ({:.0f} bytes) are missing; changes that were "
      "tried: {}\n",
      nearest.system, reports::bytes(nearest.memory.peak), device.name, reports::bytes(device.memory),
      reports::bytes(nearest.missing), nearest.missing.value(),
      ways.empty() ? "nothing takes less" : fmt::to_string(fmt::join(ways, "; "))));
  return Exit::NoPlan;
}

void write_plan(std::ostream& out, const Report& report, const Options& options, bool colour) {
  if (!only_flags(options)) reports::write_table(out, report, colour, options.verbose);
  write_export(out, options, report);
}

nlohmann::ordered_json saved_plan(const SystemResult& result) {
  return plan_file_json(result.plan, result.schedule->groups);
}

Exit plan(const PlanOptions& options, const std::vector<std::string>& command_line) {
  if (options.knobs) {
    show(knobs_text());
    return Exit::Ok;
  }
  if (options.settings) {
    show(settings_text());
    return Exit::Ok;
  }
  check_options(options);
  stop_after(options.timeout);
  OnlineOptions online = options.online;
  if (online.online && options.really_run())
    online.really_run = {options.evaluator, options.scale, Seconds(options.measure_time)};
  else if (online.online && !options.planners_model())
    throw InputError(
        fmt::format("--evaluator {}: with --online times come from --backend, or from --evaluator host or cuda",
                    options.evaluator));
  check_online(online, options);
  if (online.online) return plan_online(options, online, options.planner, options.save, command_line);
  const std::unique_ptr<Backend> backend = make_backend(options.backend, options.platform);
  if (!options.planner.empty()) planners::find_planner(options.planner);
  Question question = load_question(options);
  if (options.really_run()) {
    const exec::RunDevice device = device_that_runs(options.evaluator);
    scale_down(question, options.scale, options.seed, device == exec::RunDevice::Cuda);
    question.notes.push_back(describe_measured_times(device));
  }
  if (!options.planner.empty())
    for (Candidate& candidate : question.candidates) candidate.system.planner.name = options.planner;
  const Outputs outputs(options, question.files, {{{"--save-plan", options.save}}, {}});

  Answers answers = plan_all(question, options, *backend);
  Report report{"plan",        question.experiment, {}, std::move(answers.results), std::move(answers.refused),
                question.notes};
  if (!report.results.front().feasible) return refuse(report, question);
  add_limits(report);
  add_figures(report);
  add_step_ranges(options, report);
  add_explanation(options, report);
  report.provenance = provenance(command_line, question.files, options.seed);
  const SystemResult& best = report.results.front();
  outputs.write(report, [&](std::ostream& out, bool colour) { write_plan(out, report, options, colour); },
                {{options.save, [&](std::ostream& out) { out << saved_plan(best).dump(2) << '\n'; }}});
  return Exit::Ok;
}

}  // namespace

Action declare_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  add_experiment_options(app, *options);
  add_system_options(app, *options, Systems::Many);
  add_text(app,
           {"--planner", "NAME",
            fmt::format("who chooses the settings that are left open: {} [the system's]",
                        fmt::join(planners::planner_names(), ", ")),
            "Schedules"},
           options->planner);
  add_flag(app, {"--knobs", "", "only list the knobs of plans, with their values and what they mean", "Schedules"},
           options->knobs);
  add_flag(app, {"--settings", "", "only list everything that --set takes, with what it means", "Schedules"},
           options->settings);
  add_text(app,
           {"--evaluator", "NAME",
            fmt::format("how planners find out how long a plan takes: {}; host and cuda really run scaled-down plans, "
                        "cuda on one GPU, which stands for one rank [analytic]",
                        fmt::join(evaluator_names(), ", ")),
            "Schedules"},
           options->evaluator);
  add_backend_option(app, *options);
  add_draws_option(app, *options);
  constexpr auto group = "With --evaluator host or cuda";
  add_scale_options(app, group, options->scale);
  add_number(app, {"--measure-time", "SECONDS", "longest time to measure one plan [1]", group}, options->measure_time,
             .01, 1e6);
  add_explain_option(app, *options);
  add_export_option(app, *options);
  add_output_options(app, *options);
  add_text(app, {"--save-plan", "FILE", "write the chosen plan alone, for --plan of other commands", "Results"},
           options->save);
  add_online_options(app, options->online);
  add_general_options(app, *options);
  app.footer(plan_examples);
  return [options](const std::vector<std::string>& command_line) { return plan(*options, command_line); };
}

}  // namespace dovetail::bench
