// SPDX-License-Identifier: Apache-2.0
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
#include "models/files/input_file.hpp"
#include "models/plan/message_sizes.hpp"
#include "models/price/calibration.hpp"
#include "planners/catalog/registry.hpp"

namespace dovetail::bench {
namespace {

// The plan of the experiment file, whose knobs are set as any that the user has fixed.
Candidate candidate_of_experiment(const Options& options) {
  const std::string& file = options.request.file;
  const auto refuse = [&](std::string_view option, const std::string& name) {
    throw InputError(
        fmt::format("--{} {} has no say: the plan of {} gives every knob; leave one of them out", option, name, file));
  };
  if (!options.systems.empty()) refuse("system", options.systems.front());
  if (!options.plans.empty()) refuse("plan", options.plans.front());
  const bool changed =
      std::ranges::any_of(options.request.set, [](const std::string& set) { return set.starts_with("plan."); });
  Candidate candidate;
  candidate.system.name =
      fmt::format("plan of {}{}", std::filesystem::path(file).filename().string(), changed ? ", changed" : "");
  candidate.file = file;
  candidate.pointer = "/plan";
  candidate.plan_file = true;
  return candidate;
}

std::vector<Candidate> load_candidates(const Options& options, FilesRead& files) {
  if (has_whole_plan(options.request)) return {candidate_of_experiment(options)};
  const bool all = options.systems.empty() && options.plans.empty();
  std::vector<Candidate> candidates;
  for (const std::string& name : all ? known_names("systems") : options.systems) {
    candidates.push_back({load_system(name, files), is_path(name) ? name : "", "/plan"});
    require_planner(name, candidates.back().system);
  }
  if (all)
    std::stable_partition(candidates.begin(), candidates.end(),
                          [](const Candidate& c) { return c.system.plan.scope == Scope::Layer; });
  for (const std::string& path : options.plans) candidates.push_back({load_plan(path, files), path, "", true});
  for (auto c = candidates.begin(); c != candidates.end(); ++c)
    if (std::any_of(candidates.begin(), c, [&](const Candidate& other) { return other.system.name == c->system.name; }))
      throw InputError(
          fmt::format("two systems or plans are called {}; expected different names", in_quotes(c->system.name)));
  return candidates;
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
            : fmt::format("{} would repeat tokens over the {} ranks of mp; here they share them, because {}",
                          candidate.system.name, e.parallelism.mp, no_repeats_because(candidate.system.plan, e)));
    question.repeats_for_system = own && question.candidates.size() == 1;
    if (question.repeats_for_system) e = *std::move(own);
  }
}

std::function<void(Plan&)> fixed_knobs(const Question& question) {
  const auto of_plan = [](const std::string& set) {
    return set.starts_with("plan.") || set.starts_with("plan=") || set.starts_with("workload.micro_batch=");
  };
  if (question.request.file.empty() && std::ranges::none_of(question.request.set, of_plan)) return {};
  return plan_settings(question.request, question.experiment);
}

void add_message_sizes(Question& question) {
  const Experiment& e = question.experiment;
  if (e.model.dense()) return;
  const auto settings = fixed_knobs(question);
  std::vector<std::string> padding, batched;
  for (const auto& [system, file, place, plan_file] : question.candidates) {
    Plan plan = system.plan;
    if (settings) settings(plan);
    if (sends_routed(plan, e.workload)) continue;
    padding.push_back(system.name);
    if (plan.expert_kernel == ExpertKernel::Grouped && system.plan.expert_kernel != ExpertKernel::Grouped)
      batched.push_back(system.name);
  }
  if (!batched.empty())
    question.notes.push_back(
        fmt::format("plan.expert_kernel grouped: messages of {} are padded, so that all experts have equally many rows "
                    "and a grouped product is a batched one",
                    fmt::join(batched, ", ")));
  if (e.workload.message_sizes == MessageSizes::Padded) return;
  if (padding.size() < question.candidates.size() && !e.cluster.network)
    question.notes.emplace_back(
        "routed messages: every rank takes the time of the one that has most rows, since the cluster has no network in "
        "which ranks differ");
  if (!padding.empty())
    question.notes.push_back(fmt::format("plan.pad_messages: messages have room for the fullest expert's rows in {}",
                                         fmt::join(padding, ", ")));
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
  add_repeated_tokens(question);
  add_message_sizes(question);
  add_routing(question.experiment, question.notes);
  add_assumptions(question.experiment, question.notes);
  add_stage_transfers(question.experiment, question.notes);
  add_hardware(question.experiment, {options.request, question.files, options.backend, !options.platform.empty()},
               question.notes);
  return question;
}

}  // namespace dovetail::bench
