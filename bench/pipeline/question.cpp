#include "bench/pipeline/question.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "bench/pipeline/hardware_notes.hpp"
#include "bench/pipeline/notes.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/files/experiment_file.hpp"
#include "models/files/input_file.hpp"
#include "models/plan/knob_table.hpp"
#include "models/price/calibration.hpp"
#include "planners/registry.hpp"

namespace dovetail::bench {
namespace {

Candidate candidate_of_plan(const std::string& path, FilesRead& files) {
  Candidate candidate;
  candidate.system.name = std::filesystem::path(path).stem().string();
  candidate.system.plan = load_plan(path, files);
  candidate.file = path;
  candidate.plan_file = true;
  return candidate;
}

std::vector<Candidate> load_candidates(const Options& options, FilesRead& files) {
  const bool all = options.systems.empty() && options.plans.empty();
  std::vector<Candidate> candidates;
  for (const std::string& name : all ? known_names("systems") : options.systems) {
    candidates.push_back({load_system(name, files), is_path(name) ? name : "", "/plan"});
    require_planner(name, candidates.back().system);
  }
  if (all)
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const Candidate& c) { return c.system.plan.scope == Scope::Layer; });
  for (const std::string& path : options.plans) candidates.push_back(candidate_of_plan(path, files));
  for (auto c = candidates.begin(); c != candidates.end(); ++c)
    if (std::any_of(candidates.begin(), c, [&](const Candidate& other) { return other.system.name == c->system.name; }))
      throw InputError(
          fmt::format("two systems or plans are called {}; expected different names", in_quotes(c->system.name)));
  return candidates;
}

// The plan of the experiment file, where it sets every knob.
std::optional<Candidate> candidate_of_experiment(const ExperimentRequest& request, const Experiment& experiment) {
  if (request.file.empty()) return std::nullopt;
  FilesRead seen;
  const ExperimentFile file(request, seen);
  const auto plan = file.reader().find("plan");
  if (!plan || !std::ranges::all_of(knobs(), [&](const Knob& knob) { return plan->has(knob.name); }))
    return std::nullopt;
  Candidate candidate;
  const bool changed =
      std::ranges::any_of(request.set, [](const std::string& set) { return set.starts_with("plan."); });
  candidate.system.name =
      fmt::format("plan of {}{}", std::filesystem::path(request.file).filename().string(), changed ? ", changed" : "");
  apply_to_plan(request, experiment, candidate.system.plan);
  candidate.file = request.file;
  candidate.plan_file = true;
  return candidate;
}

// Takes the place of the candidates by the experiment's own plan, where that leaves nothing to them.
void take_plan_of_experiment(const Options& options, Question& question) {
  const auto own = candidate_of_experiment(question.request, question.experiment);
  if (!own) return;
  std::vector<std::string> names;
  for (const Candidate& candidate : question.candidates) names.push_back(candidate.system.name);
  if (!options.systems.empty() || !options.plans.empty())
    question.notes.push_back(fmt::format("{} sets every knob of the plan: {} has no say in it", question.request.file,
                                         fmt::join(names, ", ")));
  question.candidates = {*own};
}

}  // namespace

void add_repeated_tokens(Question& question) {
  Experiment& e = question.experiment;
  question.repeats_for_system = false;
  if (e.parallelism.mp == 1 || e.parallelism.sequence_parallel) return;
  for (const Candidate& candidate : question.candidates) {
    if (candidate.system.sequence_parallel.value_or(true)) continue;
    std::optional<Experiment> own = as_run_by(candidate.system, e);
    question.notes.push_back(
        own ? fmt::format("{} does without parallelism.sequence_parallel: each of the {} ranks of mp repeats the work "
                          "on all tokens of their group, and dispatches them all",
                          candidate.system.name, e.parallelism.mp)
            : fmt::format("{} would repeat tokens over the ranks of mp, which needs as many of esp and is not built "
                          "with multi-token prediction or routed messages: here they share them",
                          candidate.system.name));
    question.repeats_for_system = own && question.candidates.size() == 1;
    if (question.repeats_for_system) e = *std::move(own);
  }
}

void require_planner(const std::string& name, const System& system) {
  try {
    planners::find_planner(system.planner.name);
  } catch (const InputError& error) {
    if (!is_path(name)) throw;
    throw InputError(JsonFile::read(name).locate("/planner/name"), error.message());
  }
}

Question load_question(const Options& options) {
  Question question;
  question.request = options.request;
  question.experiment = load_experiment(options.request, question.files, question.notes);
  question.candidates = load_candidates(options, question.files);
  take_plan_of_experiment(options, question);
  add_repeated_tokens(question);
  add_routing(question.experiment, question.notes);
  add_assumptions(question.experiment, question.notes);
  add_stage_transfers(question.experiment, question.notes);
  add_hardware(question.experiment, {options.request, question.files, options.backend, !options.platform.empty()},
               question.notes);
  return question;
}

}  // namespace dovetail::bench
