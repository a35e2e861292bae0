// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/tune_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/input_file.hpp"
#include "models/plan/knob_table.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array<std::string_view, 6> group_sizes{"pp", "mp", "dp", "ep", "esp", "edp"};

// The number that a setting gives to a key: 8 of "parallelism.pp=8". Nothing where it is of another key.
std::optional<int> number_of(const std::string& set, const std::string& key) {
  if (!set.starts_with(key + "=")) return std::nullopt;
  int value = 0;
  const char *first = set.data() + key.size() + 1, *last = set.data() + set.size();
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc() || end != last || value < 1)
    throw InputError(fmt::format("--set {}: expected a whole number of at least 1", set));
  return value;
}

// The batches of the workload by our names for them.
std::array<std::pair<const char*, int*>, 2> batches(TuneQuestion& asked) {
  return {{{"global_batch", &asked.global_batch}, {"micro_batch", &asked.micro_batch}}};
}

constexpr auto chosen_batch = "tune chooses it; give the samples of a step by --global-batch";
constexpr auto chosen_groups =
    "tune lays groups and stages out itself; expected one of pp, mp, dp, ep, esp, edp, "
    "sequence_parallel, cp";

// The sizes of an experiment file, which options precede, and the settings that replace it in the question.
struct FromFile {
  const std::string& name;
  TuneQuestion& asked;
  std::vector<std::string>& set;
  std::vector<std::string>& notes;
};

// A part of the file without some of its keys.
std::string restated(const char* part, nlohmann::json value, const std::vector<std::string_view>& without) {
  for (const std::string_view key : without) value.erase(std::string(key));
  return fmt::format("{}={}", part, value.dump());
}

void take_batches(const JsonReader& workload, const std::string& path, const FromFile& from) {
  bool any = false;
  for (const auto& [name, batch] : batches(from.asked))
    if (workload.has(name)) {
      any = true;
      const int samples = workload.integer(name, 1);
      if (*batch == 0) *batch = samples;
    }
  if (!any) return;
  nlohmann::json value = workload.value();
  if (const auto routing = workload.find("routing"); routing && routing->has("trace"))
    if (const std::string trace = routing->string("trace"); is_path(trace))
      value["routing"]["trace"] = std::filesystem::absolute(beside(path, trace)).string();
  from.set.push_back(restated("workload", std::move(value), {"global_batch", "micro_batch"}));
}

// The samples of a step of a run in a layout of its own.
int samples_of_run(const JsonReader& workload, const std::optional<JsonReader>& groups) {
  if (!groups || !groups->has("dp"))
    workload.fail("batch", "of each of dp groups, and dp is not given; give the samples of a step by --global-batch");
  constexpr int most = 1'000'000'000;
  const std::int64_t samples = std::int64_t{workload.integer("batch", 1)} * groups->integer("dp", 1);
  if (samples > most)
    workload.fail("batch", fmt::format("{} samples of all groups, expected at most {}", samples, most));
  return static_cast<int>(samples);
}

void take_run(const JsonReader& file, const FromFile& from) {
  int& samples = from.asked.global_batch;
  if (samples == 0) samples = samples_of_run(file.at("workload"), file.find("parallelism"));
  from.notes.push_back(
      fmt::format("{} is a run of its own: tune takes its global batch, {} samples, chooses groups, batch and pipeline "
                  "itself, and keeps the other settings of its plan",
                  from.name, samples));
  std::vector<std::string_view> chosen;
  for (const Knob& knob : knobs())
    if (knob.group == KnobClass::Pipeline) chosen.push_back(knob.name);
  if (const auto plan = file.find("plan")) from.set.push_back(restated("plan", plan->value(), chosen));
}

// Their sizes are fixed, but for those of a run, and all else about them is set again.
void take_groups(const JsonReader& groups, bool of_run, const FromFile& from) {
  for (const auto& [key, value] : groups.value().items())
    if (key == "sequence_parallel" || key == "cp")
      from.set.push_back(fmt::format("parallelism.{}={}", key, value.dump()));
    else if (std::ranges::count(group_sizes, key) == 0 && !of_run)
      groups.fail(key, chosen_groups);
    else if (!of_run)
      from.asked.fixed.emplace(key, groups.integer(key, 1));
}

void take_file(const FromFile& from) {
  if (from.name.empty()) return;
  FilesRead seen;
  const JsonFile file = read_input(experiment_input, from.name, seen);
  const JsonReader json(file);
  const auto workload = json.find("workload"), groups = json.find("parallelism");
  const bool of_run = workload && workload->has("batch");
  if (workload) take_batches(*workload, file.name(), from);
  if (of_run) take_run(json, from);
  if (groups) take_groups(*groups, of_run, from);
}

// Takes a size that a setting gives. False: it is about something else.
bool take_sizes_of_setting(const std::string& setting, const ExperimentRequest& request, TuneQuestion& asked) {
  const std::string& written = request.as_written(setting);
  if (setting.starts_with("workload.batch=")) throw InputError(fmt::format("--set {}: {}", written, chosen_batch));
  for (const auto& [name, batch] : batches(asked))
    if (const auto samples = number_of(setting, fmt::format("workload.{}", name))) {
      *batch = *samples;
      return true;
    }
  for (const std::string_view name : group_sizes)
    if (const auto size = number_of(setting, fmt::format("parallelism.{}", name))) {
      asked.fixed.insert_or_assign(std::string(name), *size);
      return true;
    }
  if (setting.starts_with("parallelism") && !setting.starts_with("parallelism.sequence_parallel=") &&
      !setting.starts_with("parallelism.cp="))
    throw InputError(fmt::format("--set {}: {}", written, chosen_groups));
  return false;
}

// An option that says the same as a setting, which must agree.
void take_option(std::string_view name, int given, int& target) {
  if (given == 0) return;
  if (target != 0 && target != given)
    throw InputError(fmt::format("--{} {} contradicts the {} of --set", name, given, target));
  target = given;
}

void set_sequence(int tokens, ExperimentRequest& request) {
  constexpr std::string_view key = "workload.sequence=";
  for (const std::string& setting : request.set)
    if (setting.starts_with(key) && setting.substr(key.size()) != std::to_string(tokens))
      throw InputError(fmt::format("--sequence {} contradicts --set {}", tokens, request.as_written(setting)));
  request.set.push_back(fmt::format("{}{}", key, tokens));
}

}  // namespace

TuneQuestion load_tune_question(const TuneOptions& options) {
  require_agreement(options.request);
  TuneQuestion asked;
  Options left = static_cast<const Options&>(options);
  std::vector<std::string> of_file, of_user, notes;
  for (const std::string& setting : options.request.set)
    if (!take_sizes_of_setting(setting, options.request, asked)) of_user.push_back(setting);
  take_option("global-batch", options.global_batch, asked.global_batch);
  take_option("micro-batch", options.micro_batch, asked.micro_batch);
  take_file({options.request.file, asked, of_file, notes});
  if (asked.global_batch == 0) throw InputError("--global-batch is missing: how many samples a step trains");
  // Groups and batch that suit every question; the search takes others.
  left.request.set = {R"(parallelism={"mp": 1, "esp": 1})"};
  left.request.set.insert(left.request.set.end(), of_file.begin(), of_file.end());
  left.request.set.emplace_back("workload.batch=1");
  left.request.set.insert(left.request.set.end(), of_user.begin(), of_user.end());
  if (options.sequence > 0) set_sequence(options.sequence, left.request);
  asked.question = load_question(left);
  std::erase_if(asked.question.notes,  // the search gives them
                [](const std::string& note) { return note.starts_with("nobody gave all groups"); });
  asked.question.notes.insert(asked.question.notes.begin(), notes.begin(), notes.end());
  const Experiment& e = asked.question.experiment;
  if (!e.events.empty()) throw InputError("/events: tune searches steps without events; leave them out");
  if (e.cluster.network || e.workload.message_sizes == MessageSizes::Routed)
    asked.question.notes.emplace_back(
        "all ranks of a stage are taken as alike, and estimates know no described network; simulate tells how the best "
        "one does with ranks of their own");
  return asked;
}

}  // namespace dovetail::bench
