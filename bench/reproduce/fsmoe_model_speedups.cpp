// FSMoE's end-to-end steps: how much faster it is than each other system on whole models.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/reproduce/tables.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::bench {
namespace {

using Steps = std::map<std::string, double>;  // system -> seconds

std::vector<double> ratios(const std::vector<Steps>& models, const std::string& slow, const std::string& fast) {
  std::vector<double> list;
  for (const Steps& steps : models) list.push_back(steps.at(slow) / steps.at(fast));
  return list;
}

void compare(const std::vector<Steps>& models, const std::string& suffix, Recomputed& result) {
  std::vector<std::pair<std::string, double>> slowness;
  for (const auto& [system, ignored] : models.front()) {
    slowness.emplace_back(system, mean(ratios(models, system, "fsmoe")));
    if (system != "fsmoe" && system != "deepspeed_moe")
      result.values["mean over " + system + suffix] = slowness.back().second;
  }
  result.values["order by step time" + suffix] = in_order(slowness);
  const std::vector<double> fsmoe = ratios(models, "deepspeed_moe", "fsmoe");
  result.values["fsmoe over deepspeed_moe, least" + suffix] = std::ranges::min(fsmoe);
  result.values["fsmoe over deepspeed_moe, most" + suffix] = std::ranges::max(fsmoe);
}

}  // namespace

Recomputed fsmoe_model_speedups(const JsonReader& settings, FilesRead& files) {
  const std::vector<System> systems = read_systems(settings.at("systems"), files);
  std::vector<Steps> ideal, contended;
  Recomputed result;
  for (const JsonReader& each : settings.at("experiments").elements()) {
    const Experiment asked = read_experiment(each, files);
    ideal.emplace_back();
    contended.emplace_back();
    for (const System& system : systems) {
      const Experiment e = as_run_by(system, asked).value_or(asked);
      const Plan plan = choose_plan(e, system);
      ideal.back()[system.name] = step_seconds(e, plan);
      contended.back()[system.name] = contended_seconds(e, plan, read_contention(e.cluster.name, files));
    }
  }
  compare(ideal, "", result);
  compare(contended, ", with contention", result);
  const std::vector<double> tutel = ratios(ideal, "deepspeed_moe", "tutel");
  result.values["tutel over deepspeed_moe, least"] = std::ranges::min(tutel);
  result.values["tutel over deepspeed_moe, most"] = std::ranges::max(tutel);
  return result;
}

}  // namespace dovetail::bench
