// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/measured_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/predict.hpp"
#include "bench/pipeline/question.hpp"
#include "bench/pipeline/step_ranges.hpp"
#include "bench/reproduce/measured_source.hpp"
#include "models/base/json/at_place_of.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/data_path.hpp"
#include "models/files/input_file.hpp"
#include "models/results/throughput.hpp"

namespace dovetail::bench {
namespace {

const InputKind steps_input{"steps", "steps"};

// Keys of a question that may name files.
constexpr std::array<std::string_view, 4> keys_of_files{"cluster", "model", "calibration", "workload.routing.trace"};

MeasuredStep read_step(const JsonReader& json) {
  MeasuredStep step;
  step.name = json.string("name");
  step.note = json.string_or("note", "");
  step.source_name = json.string_or("source_name", "");
  step.measured = json.quantity<Seconds>("step", Sign::Positive);
  if (const auto peak = json.find("peak")) step.measured_peak = peak->quantity<Bytes>(Sign::Positive);
  return step;
}

StepsTable read_steps(const std::string& path, const JsonReader& json) {
  StepsTable table;
  static_cast<MeasuredSource&>(table) = read_source(path, json);
  for (const JsonReader& each : json.at("steps").elements()) {
    MeasuredStep step = read_step(each);
    if (std::ranges::find(table.steps, step.name, &MeasuredStep::name) != table.steps.end())
      each.fail("name", fmt::format("{} twice, expected once", in_quotes(step.name)));
    table.steps.push_back(std::move(step));
  }
  if (const auto unstated = json.find("not_stated"))
    for (const JsonReader& each : unstated->elements())
      table.not_stated.push_back({each.string("name"), each.string("why")});
  return table;
}

// "key=value" as users write it: texts without quotes.
std::string as_written(std::string_view key, const nlohmann::json& value) {
  return fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : value.dump());
}

// The names as they are, once their files are found; else an InputError.
std::string known_experiment(std::string name) {
  FilesRead files;
  read_input(experiment_input, name, files);
  return name;
}
std::string known_system(std::string name) {
  FilesRead files;
  load_system(name, files);
  return name;
}

// "data/steps/x.json" for a shipped file, wherever the data lies.
std::string shipped_name(const std::string& file) {
  const std::string folder = data_directory().string() + "/";
  return file.starts_with(folder) ? "data/" + file.substr(folder.size()) : file;
}

// Two steps that differ in nothing but how they were run have this in common.
std::string job_of(const Experiment& e, double tokens) {
  const Model& m = e.model;
  return fmt::format("{} {} {} {} {} {} {}", m.name, e.workload.layers, m.hidden, m.experts, e.workload.top_k,
                     m.expert_hidden, tokens);
}

}  // namespace

StepsFile::StepsFile(const std::string& name, FilesRead& files)
    : path_(path_of(steps_input, name)),
      file_(open_input(steps_input, name, {}, files)),
      table_(read_steps(path_, JsonReader(file_))) {}

StepsFile::Settings StepsFile::settings_of(std::size_t step) const {
  const JsonReader json(file_), each = json.at("steps").elements()[step];
  Settings settings;
  if (const auto own = each.find("question")) settings = own->members();
  const auto shared = json.find("question");
  for (const auto& [key, value] : shared ? shared->members() : Settings{})
    if (std::ranges::none_of(settings, [&](const auto& known) { return known.first == key; }))
      settings.emplace_back(key, value);
  return settings;
}

std::string StepsFile::beside_it(const std::string& name) const {
  return beside(path_, name);
}

Options StepsFile::options_of(std::size_t step, const Options& options) const {
  const JsonReader json(file_);
  Options asked;
  asked.draws = options.draws;
  asked.seed = options.seed;
  for (const auto& [key, value] : settings_of(step)) {
    at_place_of(value, [&, key = std::string_view(key), value = value] {
      if (key == "experiment")
        asked.request.file = known_experiment(beside_it(value.string()));
      else if (value.value().is_string() && std::ranges::find(keys_of_files, key) != keys_of_files.end())
        take_setting(as_written(key, beside_it(value.string())), asked.request);
      else
        take_setting(as_written(key, value.value()), asked.request);
    });
  }
  if (const auto system = json.find("system"))
    asked.systems = {at_place_of(*system, [&] { return known_system(beside_it(system->string())); })};
  else if (!has_whole_plan(asked.request))
    json.fail("no system, expected the name of the one that ran these steps");
  return asked;
}

void StepsFile::predict_step(std::size_t index, const Options& options, FilesRead& files) {
  const JsonReader place = JsonReader(file_).at("steps").elements()[index];
  MeasuredStep& step = table_.steps[index];
  try {
    const Options asked = options_of(index, options);
    const Question question = load_question(asked);
    for (const auto& [file, text] : question.files) files[shipped_name(file)] = text;
    const std::unique_ptr<Backend> backend = make_backend(asked.backend, asked.platform);
    Report report = predict(question, *backend, Arenas::LeftOut);
    add_step_ranges(asked, report);
    const SystemResult& result = report.results.front();
    step.model = question.experiment.model.name;
    step.gpus = question.experiment.cluster.gpus();
    step.tokens = static_cast<double>(throughput(question.experiment, result.metrics).tokens);
    step.predicted = result.metrics.makespan;
    step.predicted_peak = result.memory.peak;
    step.range = result.range;
    const std::string job = job_of(question.experiment, step.tokens);
    const auto known = std::ranges::find(jobs_, job);
    step.job = static_cast<int>(known - jobs_.begin());
    if (known == jobs_.end()) jobs_.push_back(job);
  } catch (const InputError& error) {
    const std::string& where = error.where().file;
    for (const auto& [key, value] : settings_of(index))
      if (where.starts_with("--set " + key + "=")) value.fail(error.message());
    if (!where.empty() && !where.starts_with("--set ")) throw;
    place.fail(error.message());
  }
}

}  // namespace dovetail::bench
