// SPDX-License-Identifier: Apache-2.0
// dovetail validate: predictions against measured times, on sizes that nothing was fitted to.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/lock_file.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/validate/device_study.hpp"
#include "bench/validate/validation.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "reports/data/validation_report.hpp"
#include "reports/data/validation_statistics.hpp"

namespace dovetail::bench {
namespace {

constexpr auto validate_examples = R"(Examples:
  Fit costs of kernels on some sizes, predict others, and run every plan of five systems at those:
    dovetail validate host -o validation.json --html validation.html

  The same on a GPU that stands for one rank of eight, beside predictions by its calibration alone:
    dovetail calibrate --device cuda -o gpu-calibration.json
    dovetail validate gpu --calibration gpu-calibration.json -o validation.json --html validation.html

  Fail in CI if predictions are more than 10 % off on average:
    dovetail validate my-grid.json --fail-on-error 0.1

Links are held to their modelled times. Kernels really run, unless the grid says that they are held too. Each op of the
result says which. Work that was stopped, or cut short by a time limit, goes on where it ended when the same command is
given again. Exit codes: 1 for wrong numerics or if nothing was measured in time, 5 if --fail-on-error was crossed.)";

struct ValidateOptions : Options {
  std::string grid, calibration;
  double measure_time = 2;
  int rounds = 5;
  double fail_on_error = 0;  // 0: never
  double time_limit = 0;     // 0: none
  bool no_check = false;
  StudyFiles study;
};

std::vector<std::string> names_of(const FilesRead& files) {
  std::vector<std::string> names;
  for (const auto& [name, text] : files) names.push_back(name);
  return names;
}

void write_results(const ValidateOptions& options, const Validation& validation) {
  const auto json = [&](std::ostream& out) { out << reports::to_json(validation).dump(2) << '\n'; };
  const auto table = [&](std::ostream& out) { reports::write_table(out, validation, use_colour(options.colour)); };
  std::vector<Output> outputs;
  if (!options.output.empty()) outputs.push_back({options.output, json});
  if (!options.html.empty())
    outputs.push_back({options.html, [&](std::ostream& out) { reports::write_html(out, validation); }});
  const bool taken = options.output == "-" || options.html == "-";
  if (!taken && !options.quiet) outputs.push_back({"-", table});
  write_all(outputs);
}

Exit judge(const Validation& validation, const ValidateOptions& options) {
  for (const ValidationCell& cell : validation.cells)
    for (const PlanOutcome& plan : cell.plans)
      if (!plan.numerics_ok.value_or(true)) return Exit::Failure;
  const bool off = options.fail_on_error > 0 && reports::mean_error(validation).value > options.fail_on_error;
  return off ? Exit::Threshold : Exit::Ok;
}

std::string how_to_go_on(const std::string& journal) {
  return journal.empty() ? "and are lost: with a file after --output, the same command goes on where it stopped"
                         : fmt::format("which {} keeps: give the same command again to go on", journal);
}

Exit validate(const ValidateOptions& options, const std::vector<std::string>& command_line) {
  stop_after(options.timeout);
  if (options.grid.empty()) throw InputError("validate takes a grid: a name in data/validation or a file");
  FilesRead files;
  const ValidationGrid grid = load_validation_grid(options.grid, files);
  std::vector<std::string> notes;
  load_experiment(grid.request, files, notes);  // for the files that it reads
  FilesRead studied;                            // which may change between calls that go on with one another
  std::vector<std::string> study_notes;
  const DeviceStudy study = read_device_study(options.study, studied, study_notes);
  ValidationSettings settings;
  settings.measure_time = Seconds(options.measure_time);
  settings.rounds = options.rounds;
  settings.check_numerics = !options.no_check;
  settings.seed = static_cast<std::uint64_t>(options.seed);
  settings.talk = options.talk();
  settings.time_limit = Seconds(options.time_limit);
  settings.calibration = options.calibration;
  if (!options.calibration.empty()) {
    if (grid.device != exec::RunDevice::Cuda)
      throw InputError(fmt::format("--calibration: of a GPU, but grid {} runs on the host's CPUs", grid.name));
    load_calibration(options.calibration, files);
  }
  if (is_kept(options.output)) settings.journal = options.output + ".journal";
  require_outputs(
      {{"--output", options.output}, {"--html", options.html}, {"the journal of --output", settings.journal}}, files,
      names_of(studied));
  std::optional<LockFile> lock;
  if (!settings.journal.empty()) lock.emplace(options.output);
  Exit exit = Exit::Ok;
  const std::optional<Progression> unfinished = validate_grid(grid, settings, files, [&](Validation& validation) {
    files.merge(studied);
    validation.provenance = provenance(command_line, files, options.seed);
    validation.device = study;
    validation.notes.insert(validation.notes.end(), study_notes.begin(), study_notes.end());
    write_results(options, validation);
    exit = judge(validation, options);
  });
  if (!unfinished) return exit;
  say(
      fmt::format("dovetail: validate: --time-limit {:g}: the time was over before any plan was measured; {} of {} "
                  "measurements were made, {}\n",
                  options.time_limit, unfinished->made, unfinished->all, how_to_go_on(settings.journal)));
  return Exit::Failure;
}

void add_study_options(CLI::App& app, StudyFiles& files) {
  const std::string group = "Measured on a device, to show beside the plans";
  add_text(app, {"--points", "FILE", "points that dovetail calibrate --points wrote", group}, files.points);
  add_text(app,
           {"--baselines", "FILE",
            "times that torch_baselines.py wrote; they give the efficiency of points of the same sizes", group},
           files.baselines);
  add_text(app, {"--step", "FILE", "a layer's step without exchanges that torch_moe.py wrote; needs --run", group},
           files.step);
  add_text(app, {"--run", "FILE", "JSON of dovetail run for the same layer at degree 1", group}, files.run);
  add_text(app, {"--labels", "FILE", "provenance.json of the GPU suite, with driver, libraries and clocks", group},
           files.labels);
}

}  // namespace

Action declare_validate(CLI::App& app) {
  const auto options = std::make_shared<ValidateOptions>();
  app.add_option("grid", options->grid,
                 "a name in data/validation or a file: sizes to fit costs on, and sizes to predict")
      ->type_name("GRID");
  add_text(app,
           {"--calibration", "NAME|FILE",
            "of the GPU: kept speeds of kernels beside exchanges, and predictions without a fit [the cluster's]",
            "Predicting"},
           options->calibration);
  const std::string group = "Measuring";
  add_number(app, {"--measure-time", "SECONDS", "longest time to measure one plan, all rounds together [2]", group},
             options->measure_time, .01, 1e6);
  add_integer(app, {"--rounds", "COUNT", "rounds through all plans, each in another order [5]", group}, options->rounds,
              1, 1000);
  add_flag(app, {"--no-check", "", "do not compare outputs and gradients of chosen plans with the reference", group},
           options->no_check);
  add_integer(app, {"--seed", "NUMBER", "seed of weights, data and the orders of plans [0]", group}, options->seed, 0,
              1 << 30);
  add_number(app, {"--fail-on-error", "RATIO", "exit with code 5 if the mean absolute error is larger", group},
             options->fail_on_error, 0, 1e6);
  add_number(app,
             {"--time-limit", "SECONDS",
              "begin no measurement after this time, and write what was measured, marked as partial", group},
             options->time_limit, 0, 1e6);
  add_study_options(app, options->study);
  add_text(app, {"-o,--output", "FILE", "write the result as JSON", "Results"}, options->output);
  add_text(app, {"--html", "FILE", "write a page with a parity plot", "Results"}, options->html);
  add_general_options(app, *options);
  app.footer(validate_examples);
  return [options](const std::vector<std::string>& command_line) { return validate(*options, command_line); };
}

}  // namespace dovetail::bench
