// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/plan_online.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/cli/interrupt.hpp"
#include "bench/cli/lock_file.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/evaluators.hpp"
#include "bench/pipeline/host_scale.hpp"
#include "bench/pipeline/online.hpp"
#include "bench/pipeline/provenance.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/streams.hpp"
#include "models/files/input_file.hpp"
#include "models/files/plan_json.hpp"
#include "reports/data/online_report.hpp"
#include "reports/text/plan_text.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds patience{10};  // for others that use the state: a step takes milliseconds
constexpr auto default_planner = "bucketed_search", default_system = "tutel";

template <class T>
T number(const std::string& option, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > T(1e9))
    throw InputError(fmt::format("--step {}: {}, expected a number above 0", option, in_quotes(text)));
  return value;
}

// "f=1.5,batch=2": what a step of a trace may give.
TraceStep parse_step(const std::string& text) {
  TraceStep step;
  if (text.empty()) return step;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "f" || key == "capacity_factor")
      step.capacity_factor = number<double>(part, value);
    else if (key == "batch")
      step.batch = number<int>(part, value);
    else if (key == "sequence")
      step.sequence = number<int>(part, value);
    else if (key == "k" || key == "top_k")
      step.top_k = number<int>(part, value);
    else
      throw InputError(
          fmt::format("--step {}: expected f=NUMBER, k=NUMBER, batch=NUMBER or sequence=NUMBER, with commas between",
                      in_quotes(part)));
  }
  return step;
}

// The experiment at each step. An error that has no place yet gets that of its step.
std::vector<Experiment> along(const Experiment& experiment, const std::string& trace, FilesRead& files) {
  const std::vector<TraceStep> steps = load_trace(trace, files);
  std::vector<Experiment> at;
  for (const TraceStep& step : steps) try {
      at.push_back(at_step(experiment, step));
    } catch (const InputError& error) {
      const std::string pointer = fmt::format("/steps/{}", at.size());
      if (is_path(trace) && !trace.ends_with(".csv"))
        throw InputError(JsonFile::read(trace).locate(pointer), error.what());
      throw InputError(fmt::format("{}: {}: {}", trace, pointer, error.what()));
    }
  return at;
}

// A trace that is there to be read, which writing timelines would destroy.
bool is_input(const std::string& trace) {
  const std::vector<std::string> known = known_names(trace_input.folder);
  if (std::ranges::find(known, trace) != known.end()) return true;
  if (!trace.ends_with(".json") || !std::filesystem::is_regular_file(trace)) return false;
  try {
    const JsonFile file = JsonFile::read(trace);
    return file.root().is_object() && file.root().contains("steps");
  } catch (const InputError&) {
    return false;
  }
}

class OnlinePlan {
 public:
  OnlinePlan(const Options& options, const OnlineOptions& online, const std::string& planner)
      : options_(options), online_(online), planner_(planner.empty() ? default_planner : planner) {
    Options asked = options;
    if (asked.systems.empty() && asked.plans.empty()) asked.systems = {default_system};
    question_ = load_question(asked);
    if (!online.really_run) return;
    const exec::RunDevice device = device_that_runs(online.really_run->by);
    scale_down(question_, online.really_run->scale, options.seed, device == exec::RunDevice::Cuda);
    question_.notes.push_back(describe_measured_times(device));
  }

  Exit over_trace(const std::vector<std::string>& command_line) {
    const std::vector<Experiment> at = along(question_.experiment, options_.trace, question_.files);
    require_own_files("");
    const std::string times_from = online_.really_run ? online_.really_run->by : options_.backend;
    EvaluatorSettings settings;
    settings.seed = static_cast<std::uint64_t>(options_.seed);
    settings.platform = options_.platform;
    if (online_.really_run) settings.measure_time = online_.really_run->measure_time;
    OnlineRun run;
    run.notes = question_.notes;
    if (!prepare(at, times_from, run.notes)) return Exit::NoPlan;
    run.experiment = question_.experiment;
    run.planner = planner_;
    run.trace = options_.trace;
    run.backend = times_from;
    run.kind = evaluator_traits(times_from).kind;
    run.noise = online_.noise;
    run.state = online_.state;
    run.resumed = resumed_;
    run.strategies = strategies_;
    run.steps = replay(question_.experiment, at, strategies_, *learner_,
                       {[&](const Experiment& e) { return make_evaluator(times_from, e, settings); }, online_.noise,
                        options_.seed, options_.talk()});
    run.provenance = provenance(command_line, question_.files, options_.seed);
    write(run);
    save();
    return Exit::Ok;
  }

  // For a training job: the time of the last step, the size of the next.
  Exit one_step(const std::string& save_plan) {
    const Experiment next = at_step(question_.experiment, parse_step(online_.step));
    require_own_files(save_plan);
    // The strategies are those of every step, whatever the size of this one.
    if (!prepare({question_.experiment}, "reported", question_.notes)) return Exit::NoPlan;
    if (online_.report > 0) report();
    std::vector<Output> outputs;
    if (!online_.step.empty()) {
      const std::size_t chosen = learner_->choose(size_of(question_.experiment, next));
      outputs = choice_outputs(strategies_[chosen], save_plan);
    }
    save();  // first: a choice that was printed can be reported
    write_all(outputs);
    return Exit::Ok;
  }

 private:
  void require_own_files(const std::string& save_plan) const {
    require_outputs({{"--state", online_.state},
                     {"--output", options_.output},
                     {"--html", options_.html},
                     {"--save-plan", save_plan}},
                    question_.files, {options_.platform});
  }

  // False, with the reason on standard error, where no strategy is left.
  bool prepare(const std::vector<Experiment>& at, std::string_view times_from, std::vector<std::string>& notes) {
    strategies_ = online_strategies(question_, planner_, at, notes);
    if (strategies_.empty()) {
      say(fmt::format("dovetail: no plan fits: {}\n", notes.back()));
      return false;
    }
    learner_ = online_planner(planner_, question_.experiment, strategies_, online_.bucket_length, times_from);
    if (online_.state.empty()) return true;
    lock_.emplace(online_.state, patience);
    resumed_ = learner_->load(online_.state);
    return true;
  }

  void save() const {
    if (online_.state.empty()) return;
    const Writing guard;
    learner_->save(online_.state);
  }

  void report() {
    if (!learner_->pending())
      throw InputError(fmt::format("--report: nothing was chosen since the last report to {}", online_.state));
    learner_->report(Seconds(online_.report));
  }

  std::vector<Output> choice_outputs(const OnlineStrategy& strategy, const std::string& save_plan) const {
    std::vector<Output> outputs;
    if (!save_plan.empty())
      outputs.push_back({save_plan, [&](std::ostream& out) {
                           out << plan_file_json(strategy.plan, question_.experiment.parallelism).dump(2) << '\n';
                         }});
    const bool json = format_of(options_) == Format::Json;
    const std::string to = options_.output.empty() ? "-" : options_.output;
    outputs.push_back({to, [this, &strategy, json](std::ostream& out) {
                         if (json)
                           out << choice_json(strategy).dump(2) << '\n';
                         else
                           out << strategy.name << '\n'
                               << (options_.quiet ? "" : reports::plan_text(strategy.plan, options_.verbose));
                       }});
    return outputs;
  }

  Json choice_json(const OnlineStrategy& strategy) const {
    const planners::OnlineChoice& choice = *learner_->pending();
    return {{"schema_version", reports::online_schema_version},
            {"kind", "online_choice"},
            {"planner", planner_},
            {"capacity_factor", choice.step.capacity_factor},
            {"tokens", choice.step.tokens},
            {"strategy", strategy.name},
            {"plan", to_json(strategy.plan)}};
  }

  void write(const OnlineRun& run) const {
    const bool to_stdout = options_.output.empty() || options_.output == "-";
    const Format format = format_of(options_);
    const auto table = [&](std::ostream& out, bool colour) {
      reports::write_table(out, run, colour, options_.verbose);
    };
    std::vector<Output> outputs;
    if (!options_.html.empty())
      outputs.push_back({options_.html, [&](std::ostream& out) { reports::write_html(out, run); }});
    if (!to_stdout || options_.html != "-")
      outputs.push_back({to_stdout ? "-" : options_.output, [&](std::ostream& out) {
                           if (format == Format::Json)
                             out << reports::to_json(run).dump(2) << '\n';
                           else if (format == Format::Csv)
                             reports::write_csv(out, run);
                           else
                             table(out, to_stdout && use_colour(options_.colour));
                         }});
    if (!to_stdout && options_.html != "-" && !options_.quiet)
      outputs.push_back({"-", [&](std::ostream& out) { table(out, use_colour(options_.colour)); }});
    write_all(outputs);
  }

  const Options& options_;
  const OnlineOptions& online_;
  std::string planner_;
  Question question_;
  std::vector<OnlineStrategy> strategies_;
  std::unique_ptr<planners::OnlinePlanner> learner_;
  std::optional<LockFile> lock_;  // of the state, from its reading to its writing
  bool resumed_ = false;
};

}  // namespace

void add_online_options(CLI::App& app, OnlineOptions& options) {
  const std::string group = "Step by step";
  add_flag(
      app,
      {"--online", "",
       fmt::format("let a planner that learns ({}) choose step by step: for each step of a trace of capacity factors, "
                   "which --trace then names as input, or for one --step [{}]",
                   fmt::join(planners::online_names(), ", "), default_planner),
       group},
      options.online);
  add_text(app,
           {"--state", "FILE", "keep what was learned in this file; it is read if it exists, and replaced at the end",
            group},
           options.state);
  add_text(app,
           {"--step", "f=NUMBER,..",
            "print the strategy for a step with this capacity factor, and with this k=, batch= and sequence= if given",
            group},
           options.step);
  add_number(app, {"--report", "SECONDS", "report how long the last --step took, before the next one is chosen", group},
             options.report, 1e-9, 1e9);
  add_number(app,
             {"--noise", "RATIO", "make reported times random with this standard deviation, from --seed [0]", group},
             options.noise, 0, 1);
  add_number(app,
             {"--bucket-length", "NUMBER",
              "for bucketed_search: the range of capacity factors that share their times [0.5]", group},
             options.bucket_length, 1e-6, 1e6);
}

void check_online(const OnlineOptions& online, const Options& options) {
  const bool steps = !online.step.empty() || online.report > 0;
  if (!online.online) {
    if (!online.state.empty() || steps || online.noise > 0 || online.bucket_length > 0)
      throw InputError("--state, --step, --report, --noise and --bucket-length go with --online");
    if (!options.trace.empty() && is_input(options.trace))
      throw InputError(fmt::format("--trace {}: this is a trace to read; add --online, or name a file for timelines",
                                   options.trace));
    return;
  }
  if (options.explain || options.framework)
    throw InputError("--explain and --export are about one best plan; leave out --online");
  if (steps == !options.trace.empty())
    throw InputError(steps ? "--trace contradicts --step and --report"
                           : "--online: expected --trace FILE, or --step and --report with --state FILE");
  if (steps && online.state.empty())
    throw InputError("--step and --report: add --state FILE, which is kept between steps");
  if (steps && online.really_run)
    throw InputError(fmt::format("--evaluator {} goes with --trace, not with --step", online.really_run->by));
  if (steps && (online.noise > 0 || !options.html.empty()))
    throw InputError("--noise and --html go with --trace, not with --step");
}

Exit plan_online(const Options& options, const OnlineOptions& online, const std::string& planner,
                 const std::string& save_plan, const std::vector<std::string>& command_line) {
  if (!save_plan.empty() && online.step.empty())
    throw InputError("--save-plan: with --online it goes with --step, which chooses one plan");
  OnlineOptions checked = online;
  if (checked.bucket_length == 0) checked.bucket_length = planners::OnlineSettings{}.bucket_length;
  OnlinePlan plan(options, checked, planner);
  return options.trace.empty() ? plan.one_step(save_plan) : plan.over_trace(command_line);
}

}  // namespace dovetail::bench
