// SPDX-License-Identifier: Apache-2.0
// FSMoE's end-to-end steps: how much faster it is than each other system on whole models, with the interference of the
// calibration and without any.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

using Steps = std::map<std::string, double>;  // system -> seconds

// Steps of each system on one model after the other.
struct Measured {
  std::vector<Steps> shipped, ideal;
};

Measured measure(const JsonReader& experiments, std::span<const System> systems, FilesRead& files) {
  Measured measured;
  for (const JsonReader& each : experiments.elements()) {
    const Experiment asked = read_experiment(each, files);
    measured.shipped.emplace_back();
    measured.ideal.emplace_back();
    for (const System& system : systems) {
      Experiment e = as_run_by(system, asked).value_or(asked);
      const Plan plan = choose_plan(e, system);
      measured.shipped.back()[system.name] = step_seconds(e, plan);
      e.overlap = Overlap::Ideal;
      measured.ideal.back()[system.name] = step_seconds(e, plan);
    }
  }
  return measured;
}

std::vector<double> ratios(const std::vector<Steps>& models, const std::string& slow, const std::string& fast) {
  std::vector<double> list;
  for (const Steps& steps : models) list.push_back(steps.at(slow) / steps.at(fast));
  return list;
}

void add_means(const std::vector<Steps>& models, const std::string& prefix, const std::string& suffix,
               Recomputed& result) {
  for (const auto& [system, ignored] : models.front())
    if (system != "fsmoe")
      result.values[prefix + "mean over " + system + suffix] = mean(ratios(models, system, "fsmoe"));
}

void add_order(const std::vector<Steps>& models, const std::string& prefix, const std::string& suffix,
               Recomputed& result) {
  std::vector<std::pair<std::string, double>> slowness;
  for (const auto& [system, ignored] : models.front())
    slowness.emplace_back(system, mean(ratios(models, system, "fsmoe")));
  result.values[prefix + "order by step time" + suffix] = in_order(slowness);
}

void add_range(const std::vector<Steps>& models, const std::string& slow, const std::string& fast,
               const std::string& suffix, Recomputed& result) {
  const std::vector<double> list = ratios(models, slow, fast);
  result.values[fmt::format("{} over {}, least{}", fast, slow, suffix)] = std::ranges::min(list);
  result.values[fmt::format("{} over {}, most{}", fast, slow, suffix)] = std::ranges::max(list);
}

constexpr const char* without = ", ideal overlap";

}  // namespace

Recomputed fsmoe_model_speedups(const JsonReader& settings, FilesRead& files) {
  const Measured measured = measure(settings.at("experiments"), read_systems(settings.at("systems"), files), files);
  Recomputed result;
  for (const auto& [models, suffix] : {std::pair{&measured.shipped, ""}, {&measured.ideal, without}}) {
    add_order(*models, "", suffix, result);
    add_means(*models, "", suffix, result);
    add_range(*models, "deepspeed_moe", "fsmoe", suffix, result);
    add_range(*models, "deepspeed_moe", "pipemoe", suffix, result);
  }
  return result;
}

Recomputed fsmoe_varied_speedups(const JsonReader& settings, FilesRead& files) {
  const std::vector<System> systems = read_systems(settings.at("systems"), files);
  Recomputed result;
  for (const auto& [name, experiments] : settings.at("varied").members()) {
    const Measured measured = measure(experiments, systems, files);
    add_order(measured.shipped, name + ": ", "", result);
    add_means(measured.shipped, name + ": ", "", result);
  }
  return result;
}

}  // namespace dovetail::bench
