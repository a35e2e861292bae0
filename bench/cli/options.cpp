// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/options.hpp"

#include <fmt/format.h>

#include <array>

#include "bench/cli/megatron_names.hpp"
#include "bench/cli/option_values.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

const std::string question = "Question", schedules = "Schedules", results = "Results", general = "General";

using std::pair, std::string_view;
constexpr std::array<pair<string_view, Format>, 3> format_names{
    {{"table", Format::Table}, {"json", Format::Json}, {"csv", Format::Csv}}};
constexpr std::array<pair<string_view, Colour>, 3> colour_names{
    {{"auto", Colour::Auto}, {"always", Colour::Always}, {"never", Colour::Never}}};

}  // namespace

void take_setting(const std::string& written, ExperimentRequest& request) {
  request.esp_follows_mp |= sets_tensor_parallelism(written);
  for (const std::string& setting : without_megatron_names(written)) {
    request.set.push_back(setting);
    if (setting != written) request.written.insert_or_assign(setting, written);
  }
}

void add_experiment_options(CLI::App& app, Options& options) {
  ExperimentRequest& request = options.request;
  add_text(
      app,
      {"--experiment", "NAME|FILE",
       "cluster, model, workload and parallelism: a shipped name or a .json file; other options override it", question},
      request.file);
  add_text(app, {"--cluster", "NAME|FILE", "the cluster: a shipped name or a .json file", question}, request.cluster);
  add_text(app, {"--model", "NAME|FILE", "the model: a shipped name or a .json file", question}, request.model);
  add_integer(app, {"--nodes", "COUNT", "use the same kind of cluster with this many nodes", question}, request.nodes,
              1, 1'000'000);
  add_text(
      app,
      {"--calibration", "NAME|FILE", "what operations cost: a shipped name or a .json file [the cluster's]", question},
      request.calibration);
  add_repeatable(
      app,
      {"--set", "KEY=VALUE",
       "set a value by its dotted path, with its unit; may be repeated: workload.batch=4, parallelism.ep=2, "
       "calibration.memory.beta=\"1 ps/B\", plan.forward_degree=2; Megatron-LM's tp, pp, cp, ep, etp, dp, vpp, "
       "mbs and gbs are understood too, and so are mp and esp",
       question},
      [&request](const std::string& text) { take_setting(text, request); });
  add_flag(app,
           {"--ideal", "",
            "operations that run together do not slow each other; without this they do, by the calibration's "
            "interference",
            question},
           request.ideal);
  add_integer(app, {"--seed", "NUMBER", "seed of everything random [0]", question}, options.seed, 0, 2'000'000'000);
}

void add_system_options(CLI::App& app, Options& options, Systems systems) {
  if (systems == Systems::Many)
    add_list(app,
             {"--systems,--system", "NAME|FILE,..",
              "systems to compare; the first is the baseline of speed-ups [all shipped]", schedules},
             options.systems);
  else
    add_list(app,
             {"--system", "NAME|FILE", "a system: its plan, and its planner for the settings that the plan leaves open",
              schedules},
             options.systems);
  add_repeatable(
      app,
      {"--plan", "FILE",
       systems == Systems::Many ? "a plan file to compare; may be repeated" : "a plan file, instead of a system",
       schedules},
      options.plans);
}

void add_draws_option(CLI::App& app, Options& options) {
  add_integer(app,
              {"--draws", "COUNT",
               "how often all costs are drawn from the ranges in which they are known, for the interval of each step; "
               "0: no intervals [200]",
               schedules},
              options.draws, 0, 1'000'000);
}

void add_explain_option(CLI::App& app, Options& options) {
  add_flag(
      app,
      {"--explain", "", "say in words why the best plan is the best, what limits it, and what would help", results},
      options.explain);
}

void add_export_option(CLI::App& app, Options& options) {
  add_choice(app,
             {"--export", "megatron|deepspeed|tutel|json",
              "print the best plan as arguments of this framework, with their versions and what it cannot do; with -q "
              "these alone",
              results},
             reports::framework_names, options.framework);
}

void add_result_options(CLI::App& app, Options& options, const std::string& page) {
  add_choice(app,
             {"--format", "table|json|csv",
              "format of the result; json and csv are in seconds and bytes [table; for a file what its ending .csv or "
              ".txt says, "
              "else json]",
              results},
             format_names, options.format);
  add_text(app,
           {"-o,--output", "FILE", "write the result to this file, completely or not at all; \"-\" is standard output",
            results},
           options.output);
  add_text(app, {"--html", "FILE", page, results}, options.html);
}

void add_output_options(CLI::App& app, Options& options) {
  add_result_options(app, options, "write a self-contained page with charts and timelines");
  add_text(app, {"--trace", "FILE", "write timelines for ui.perfetto.dev or chrome://tracing", results}, options.trace);
}

void add_general_options(CLI::App& app, Options& options) {
  add_flag(app, {"-q,--quiet", "", "print only what was asked for, and errors", general}, options.quiet);
  add_flag(app,
           {"-v,--verbose", "",
            "print all: a line for each system with all figures, the reasons, costs and notes, every knob and gradient "
            "slice; "
            "simulate shows the timeline; progress comes in lines",
            general},
           options.verbose);
  add_choice(app,
             {"--color", "auto|always|never", "when to use colours; auto: on a terminal, unless NO_COLOR is set [auto]",
              general},
             colour_names, options.colour);
  add_number(app, {"--timeout", "SECONDS", "give up after this time, with exit code 1", general}, options.timeout, .001,
             1e9);
}

void check_options(const Options& options) {
  if (options.quiet && options.verbose) throw InputError("--quiet contradicts --verbose");
  const bool table =
      options.output != "-" && (!options.output.empty() || options.format.value_or(Format::Table) == Format::Table);
  if (options.framework && !table)
    throw InputError("--export prints below the table; expected a file after --output for other formats");
  if (options.explain && !table && options.format == Format::Csv)
    throw InputError("--explain has no place in csv; expected a file after --output for it, or another format");
}

}  // namespace dovetail::bench
