#include "bench/reproduce/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/evaluate.hpp"
#include "models/analytic_backend.hpp"

namespace dovetail::bench {
namespace {

SystemResult run(const Experiment& experiment, const System& system) {
  Question question;
  question.experiment = experiment;
  AnalyticBackend backend;
  return evaluate(experiment, system.name, choose_plan(question, {system, "", ""}), backend);
}

template <class T, class Read>
std::vector<T> read_list(const JsonReader& json, Read read) {
  std::vector<T> list;
  for (const JsonReader& each : json.elements()) list.push_back(read(each));
  return list;
}

}  // namespace

Experiment read_experiment(std::span<const JsonReader> options, FilesRead& files) {
  ExperimentRequest request;
  for (const JsonReader& some : options)
    for (const auto& [key, value] : some.members())
      request.set.push_back(fmt::format("{}={}", key, value.value().dump()));
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

Experiment read_experiment(const JsonReader& options, FilesRead& files) {
  return read_experiment(std::span(&options, 1), files);
}

SystemResult run_system(const Experiment& experiment, const std::string& system, FilesRead& files) {
  return run(experiment, load_system(system, files));
}

SystemResult run_plan(const Experiment& experiment, const Plan& plan) {
  System system;
  system.plan = plan;
  return run(experiment, system);
}

double step_seconds(const Experiment& experiment, const System& system) {
  return run(experiment, system).metrics.makespan.value();
}

std::vector<std::string> read_strings(const JsonReader& json) {
  return read_list<std::string>(json, [](const JsonReader& each) { return each.string(); });
}
std::vector<int> read_integers(const JsonReader& json) {
  return read_list<int>(json, [](const JsonReader& each) { return each.integer(-JsonReader::int_max); });
}
std::vector<double> read_numbers(const JsonReader& json) {
  return read_list<double>(json, [](const JsonReader& each) { return each.number(); });
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
