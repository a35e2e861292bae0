// SPDX-License-Identifier: Apache-2.0
// dovetail tune: the fastest layout and plan for a model, a cluster and a global batch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/confirm.hpp"
#include "bench/pipeline/export_flags.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/pipeline/tune_curve.hpp"
#include "exec/run/scale_down.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "models/files/experiment_file.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/answer/table.hpp"
#include "reports/sections/proof_line.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr auto tune_examples = R"(Examples:
  The fastest way to train a model on 128 GPUs, with 512 samples of 4096 tokens a step:
    dovetail tune --cluster dgx-h100 --nodes 16 --model mixtral-8x22b --global-batch 512 --sequence 4096

  With eight pipeline stages and one sample at a time, and with 15 % of the memory left free:
    dovetail tune --cluster dgx-h100 --nodes 16 --model mixtral-8x22b --global-batch 512 --sequence 4096 \
      --set parallelism.pp=8 --micro-batch 1 --memory-margin 15

  The best one kept for other commands:
    dovetail tune --cluster dgx-h100 --nodes 2 --model qwen3-30b-a3b --global-batch 128 --save best.json
    dovetail simulate --experiment best.json

  Two clusters side by side, with the energy of GPUs that take 1000 W with all that they need:
    dovetail tune --cluster dgx-h100,hgx-h200 --gpus 8 --model olmoe-1b-7b --global-batch 64 --gpu-watts 1000

  The best plans once more, simulated by SimGrid; --confirm host really runs them in small:
    dovetail tune --cluster dgx-h100 --nodes 2 --model qwen3-30b-a3b --global-batch 128 --count 3 --confirm simgrid

  In words, and as arguments of Megatron-LM:
    dovetail tune --cluster dgx-h100 --nodes 1 --model olmoe-1b-7b --global-batch 64 --explain --export megatron

  The fastest of what DeepSpeed runs, and what it would gain by the rest:
    dovetail tune --cluster dgx-h100 --nodes 1 --model olmoe-1b-7b --global-batch 64 --for deepspeed

A layout says how many ranks share what: pp pipeline stages, each of mp x dp ranks, whose experts lie on ep x esp x edp
ranks. Every layout that divides the GPUs, the batch and the model takes part, with every micro-batch, virtual stages,
recomputing, ZeRO and the whole space of plans. Settings by --set parallelism.x=y and --set plan.x=y restrict them.
capacity_factor is not searched, because it changes what is trained. Exit code 3 says that nothing fits the memory.)";

Exit refuse(const Report& report) {
  say(fmt::format("dovetail: no plan fits {} of each {}: {}\n", reports::bytes(report.tuning->limit),
                  report.experiment.cluster.device.name, reports::proof_line(report)));
  return Exit::NoPlan;
}

// Settings of other files than the experiment's own. The number of nodes may stand in an experiment.
bool of_parts(const std::string& set) {
  return set.starts_with("cluster.") || set.starts_with("model.") || set.starts_with("calibration.");
}

bool of_nodes(const std::string& set) {
  return set.starts_with("nodes=") || set.starts_with("cluster.nodes=");
}

std::string from_anywhere(const std::string& name) {
  return is_path(name) ? std::filesystem::absolute(name).string() : name;
}

// The winner as a file for --experiment of other commands: what the user has set, then groups, batch and plan.
nlohmann::ordered_json experiment_of(const Report& report, const Options& options) {
  const SystemResult& best = report.results.front();
  ExperimentRequest request = options.request;
  for (std::string* name : {&request.cluster, &request.model, &request.calibration}) *name = from_anywhere(*name);
  std::erase_if(request.set, [](const std::string& set) {
    return of_parts(set) || of_nodes(set) || set.starts_with("parallelism.") ||
           set.starts_with("workload.global_batch=") || set.starts_with("workload.micro_batch=");
  });
  FilesRead files;
  nlohmann::ordered_json file = ExperimentFile(request, files).json().root();
  file["nodes"] = report.experiment.cluster.nodes;
  if (!file.contains("workload")) file["workload"] = nlohmann::ordered_json::object();
  for (const char* batch : {"global_batch", "micro_batch"}) file["workload"].erase(batch);
  file["workload"]["batch"] = best.micro_batch * best.plan.micro_batches;
  file["workload"]["sequence"] = report.experiment.workload.sequence;
  file["parallelism"] = to_json(best.groups);
  file["plan"] = to_json(best.plan);
  return file;
}

// Settings that a file of names cannot hold.
void say_what_is_not_saved(const std::string& save, const Options& options) {
  for (const std::string& set : options.request.set)
    if (!save.empty() && of_parts(set) && !of_nodes(set))
      say(fmt::format("note: {} does not hold --set {}: give it to the other command too\n", save,
                      options.request.as_written(set)));
}

void write_text(std::ostream& out, const Report& report, const Options& options, bool colour) {
  if (!only_flags(options)) reports::write_table(out, report, colour, options.verbose);
  write_export(out, options, report);
}

Exit tune_several(const TuneOptions& options, const std::vector<TuneOptions>& choices,
                  const std::vector<std::string>& command_line) {
  FilesRead files;
  const Outputs outputs(options, files);
  Report report;
  {
    ProgressLine progress("tune", static_cast<int>(choices.size()), options.talk());
    report = tune_curve(
        choices, files, [&](std::string_view part, double share) { progress.begin(part, share); },
        [&] { progress.done(); });
  }
  report.provenance = provenance(command_line, files, options.seed);
  outputs.write(report);
  const bool any =
      std::ranges::any_of(report.curve->points, [](const TuningPoint& point) { return point.best.has_value(); });
  return any ? Exit::Ok : Exit::NoPlan;
}

// Options that are about one best plan.
void require_one(const TuneOptions& options, const std::string& save) {
  for (const auto& [given, option] : {std::pair{!save.empty(), "--save"},
                                      {options.explain, "--explain"},
                                      {!options.confirm.empty(), "--confirm"},
                                      {!options.trace.empty(), "--trace"},
                                      {options.framework.has_value(), "--export"}})
    if (given)
      throw InputError(fmt::format("{} is about one best plan; expected one cluster and one count of GPUs", option));
}

std::optional<Confirmer> confirmer_of(const TuneQuestion& question, const TuneOptions& options) {
  const bool confirms = !options.confirm.empty();
  if (options.measure_time > 0 && !(confirms && really_runs(options.confirm)))
    throw InputError("--measure-time is for --confirm host and cuda, where plans really run");
  if (!confirms) return std::nullopt;
  EvaluatorSettings settings;
  settings.seed = static_cast<std::uint64_t>(options.seed);
  if (options.measure_time > 0) settings.measure_time = Seconds(options.measure_time);
  return Confirmer(question.question.experiment, options.confirm, settings);
}

void confirm(const Confirmer& confirmer, const Options& options, Report& report) {
  ProgressLine progress("confirm", static_cast<int>(report.results.size()), options.talk());
  report.tuning->confirmation = confirmer.confirm(
      report.results, [&](std::string_view plan) { progress.begin(plan); }, [&] { progress.done(); });
  if (confirmer.pads()) report.notes.push_back(fmt::format("--confirm cuda: {}", exec::padded_for_device));
}

// Whether anything is written that shows the best step op by op.
bool is_shown_in_depth(const Options& options) {
  return options.verbose || format_of(options) == Format::Json || !options.html.empty() || !options.trace.empty();
}

// The arguments of the framework that plans are for stand below the table, where there is one.
TuneOptions with_export(TuneOptions options) {
  const bool to_stdout = options.output.empty() || options.output == "-";
  if (!options.framework && (!to_stdout || format_of(options) == Format::Table)) options.framework = options.plans_for;
  return options;
}

Exit tune(const TuneOptions& asked, const std::string& save, const std::vector<std::string>& command_line) {
  check_options(asked);
  stop_after(asked.timeout);
  const std::vector<TuneOptions> choices = hardware_choices(asked);
  if (choices.size() > 1) {
    require_one(asked, save);
    return tune_several(asked, choices, command_line);
  }
  const TuneOptions options = with_export(choices.front());
  const TuneQuestion question = load_tune_question(options);
  const Outputs outputs(options, question.question.files, {{{"--save", save}}, {}});
  const std::optional<Confirmer> confirmer = confirmer_of(question, options);
  Report report;
  {
    ProgressLine progress("tune", 1, options.talk());
    report = bench::tune(question, options, [&](std::string_view part, double share) { progress.begin(part, share); });
    progress.done();
  }
  if (report.results.empty()) return refuse(report);
  if (confirmer) confirm(*confirmer, options, report);
  if (is_shown_in_depth(options)) add_whole_step(report);
  report.provenance = provenance(command_line, question.question.files, options.seed);
  outputs.write(report, [&](std::ostream& out, bool colour) { write_text(out, report, options, colour); },
                {{save, [&](std::ostream& out) { out << experiment_of(report, options).dump(2) << '\n'; }}});
  say_what_is_not_saved(save, options);
  return Exit::Ok;
}

}  // namespace

Action declare_tune(CLI::App& app) {
  const auto options = std::make_shared<TuneOptions>();
  const auto save = std::make_shared<std::string>();
  add_experiment_options(app, *options);
  constexpr auto group = "Training";
  add_text(
      app,
      {"--gpus", "N..M|N,..",
       "so many GPUs, in whole nodes, in place of --nodes; a range is doubled from N to M. With several counts, or "
       "several names after --cluster, the best plan of each is shown",
       group},
      options->gpus);
  add_number(
      app,
      {"--gpu-watts", "WATTS", "power of a GPU with its share of all else, for the energy of several sizes", group},
      options->gpu_watts, 1, 1e6);
  add_integer(app, {"--global-batch", "SAMPLES", "samples that a step trains, over all GPUs", group},
              options->global_batch, 1, 1'000'000'000);
  add_integer(app, {"--sequence", "TOKENS", "tokens of a sample [those of the model's own training, or 4096]", group},
              options->sequence, 1, 1'000'000'000);
  add_integer(app, {"--micro-batch", "SAMPLES", "samples that go through the layers together [every number]", group},
              options->micro_batch, 1, 1'000'000'000);
  add_number(app,
             {"--memory-margin", "PERCENT", "of device memory, left free for what the model does not know [10]", group},
             options->memory_margin, 0, 99);
  add_choice(app,
             {"--for", "megatron|deepspeed|tutel",
              "search only what this framework runs; print its arguments, what it cannot do, and what it would gain by "
              "that",
              group},
             reports::training_framework_names, options->plans_for);
  add_list(app, {"--systems,--system", "NAME|FILE,..", "systems to compare with the best plan [all shipped]", group},
           options->systems);
  add_repeatable(app, {"--plan", "FILE", "a plan file to compare like a system; may be repeated", group},
                 options->plans);
  add_integer(app, {"--count", "COUNT", "how many of the best plans are shown [10]", "Results"}, options->count, 1,
              1000);
  options->draws = 50;
  add_integer(app,
              {"--draws", "COUNT", "draws of all costs for the ranges of the best plans; 0: no ranges [50]", "Results"},
              options->draws, 0, 1'000'000);
  add_text(
      app,
      {"--confirm", "NAME",
       fmt::format("show the best plans beside the same by other means: {}; host and cuda really run them in small",
                   fmt::join(confirmer_names(), ", ")),
       "Results"},
      options->confirm);
  add_number(app, {"--measure-time", "SECONDS", "longest time to measure a plan that really runs [1]", "Results"},
             options->measure_time, .01, 1e6);
  add_explain_option(app, *options);
  add_export_option(app, *options);
  add_output_options(app, *options);
  add_text(app, {"--save", "FILE", "write the best one as a file for --experiment of other commands", "Results"},
           *save);
  add_general_options(app, *options);
  app.footer(tune_examples);
  return [options, save](const std::vector<std::string>& command_line) { return tune(*options, *save, command_line); };
}

}  // namespace dovetail::bench
