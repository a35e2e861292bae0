// SPDX-License-Identifier: Apache-2.0
#include "bench/reproduce/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "bench/pipeline/evaluate.hpp"
#include "models/time/analytic_backend.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"

namespace dovetail::bench {
namespace {

planners::PlanChoice choice_of(const Experiment& experiment, const System& system) {
  planners::PlanChoice planned =
      planners::find_planner(system.planner.name)
          .choose({experiment, system.plan, system.planner}, planners::analytic_evaluator(experiment));
  return {std::move(planned.plan), std::move(planned.report)};
}

template <class T, class Read>
std::vector<T> read_list(const JsonReader& json, Read read) {
  std::vector<T> list;
  for (const JsonReader& each : json.elements()) list.push_back(read(each));
  if (list.empty()) json.fail("an empty list, expected at least one value");
  return list;
}

}  // namespace

Experiment read_experiment(const JsonReader& options, FilesRead& files, const std::vector<std::string>& more) {
  ExperimentRequest request;
  for (const auto& [key, value] : options.members())
    request.set.push_back(fmt::format("{}={}", key, value.value().dump()));
  request.set.insert(request.set.end(), more.begin(), more.end());
  std::vector<std::string> notes;
  try {
    return load_experiment(request, files, notes);
  } catch (const InputError& error) {
    for (const auto& [key, value] : options.members())
      if (error.where().file.starts_with("--set " + key + "=")) value.fail(error.message());
    throw;
  }
}

Plan choose_plan(const Experiment& experiment, const System& system) {
  return choice_of(experiment, system).plan;
}

SystemResult run_system(const Experiment& asked, const System& system) {
  AnalyticBackend backend;
  const Experiment experiment = as_run_by(system, asked).value_or(asked);
  return evaluate(experiment, system.name, choice_of(experiment, system), backend);
}

double step_seconds(const Experiment& experiment, const Plan& plan) {
  return planners::analytic_evaluator(experiment)(plan).value();
}

double step_seconds(const Experiment& asked, const System& system) {
  const Experiment experiment = as_run_by(system, asked).value_or(asked);
  return step_seconds(experiment, choose_plan(experiment, system));
}

std::vector<System> read_systems(const JsonReader& names, FilesRead& files) {
  return read_list<System>(names, [&](const JsonReader& each) { return load_system(each.string(), files); });
}

std::vector<std::string> read_strings(const JsonReader& json) {
  return read_list<std::string>(json, [](const JsonReader& each) { return each.string(); });
}
std::vector<double> read_numbers(const JsonReader& json) {
  return read_list<double>(json, [](const JsonReader& each) { return each.number(); });
}
std::vector<double> read_axis(const JsonReader& json) {
  std::set<double> seen;
  return read_list<double>(json, [&](const JsonReader& each) {
    if (!seen.insert(each.number()).second) each.fail("given twice, expected once");
    return each.number();
  });
}
std::vector<int> read_integer_axis(const JsonReader& json) {
  for (const JsonReader& each : json.elements()) each.integer(-largest_setting, largest_setting);
  const std::vector<double> numbers = read_axis(json);
  return {numbers.begin(), numbers.end()};
}

double mean(std::span<const double> values) {
  return values.empty() ? 0 : std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

std::string in_order(std::vector<std::pair<std::string, double>> named) {
  std::ranges::stable_sort(named, {}, &std::pair<std::string, double>::second);
  std::vector<std::string> names;
  for (auto& [name, value] : named) names.push_back(std::move(name));
  return fmt::format("{}", fmt::join(names, " < "));
}

}  // namespace dovetail::bench
