// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "bench/cli/outputs.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

// "plan.scope: block is not built yet": the row says already whose plan it is.
std::string reason_of(const InputError& error) {
  std::string place = error.where().pointer;
  if (place.empty()) return error.message();
  std::ranges::replace(place, '/', '.');
  return fmt::format("{}: {}", place.substr(1), error.message());
}

std::vector<std::size_t> searching_ones_last(const std::vector<Candidate>& candidates) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_partition(
      order, [&](std::size_t i) { return candidates[i].system.planner.space != SearchSpace::Plans; });
  return order;
}

using Results = std::vector<std::optional<SystemResult>>;

// The result of a plan that another system has chosen too: its schedule is held once. None: nobody has.
std::optional<SystemResult> known_result(const Results& results, const Experiment& experiment, const std::string& name,
                                         const planners::PlanChoice& choice) {
  for (const std::optional<SystemResult>& result : results) {
    if (!result || result->plan != choice.plan) continue;
    if (result->schedule->groups.repeats_tokens() != experiment.parallelism.repeats_tokens()) continue;
    SystemResult same = *result;
    same.system = name;
    same.planner = choice.report;
    return same;
  }
  return std::nullopt;
}

// Planning takes as long as all else about a long step. A table of several results has none of it.
bool shows_arenas(const Options& options, const std::vector<Candidate>& candidates) {
  return candidates.size() == 1 || format_of(options) == Format::Json || !options.html.empty();
}

}  // namespace

Answers answer(const Question& question, Evaluation& evaluation, ProgressLine& progress, const Options& options,
               const Refine& refine) {
  const std::vector<Candidate>& candidates = question.candidates;
  const Arenas arenas = shows_arenas(options, candidates) ? Arenas::Planned : Arenas::LeftOut;
  Results results(candidates.size());
  std::vector<std::optional<InputError>> errors(candidates.size());
  for (const std::size_t i : searching_ones_last(candidates)) {
    const Candidate& candidate = candidates[i];
    progress.begin(candidate.system.name);
    try {
      planners::PlanChoice choice = evaluation.choose(candidate);
      if (refine) refine(candidate, choice);
      results[i] = known_result(results, evaluation.experiment_of(candidate.system), candidate.system.name, choice);
      if (!results[i]) results[i] = evaluation.evaluate(candidate, choice, arenas);
    } catch (const InputError& error) {
      if (candidate.plan_file || candidates.size() == 1) throw;
      errors[i] = error;
    }
    progress.done();
  }
  Answers answers;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (results[i])
      answers.results.push_back(std::move(*results[i]));
    else
      answers.refused.push_back({candidates[i].system.name, reason_of(*errors[i])});
  if (answers.results.empty())
    throw **std::ranges::find_if(errors, [](const auto& error) { return error.has_value(); });
  return answers;
}

}  // namespace dovetail::bench
