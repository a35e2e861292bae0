// FSMoE's end-to-end steps: how much faster it is than each other system on whole models.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

using Steps = std::map<std::string, double>;  // system -> seconds

std::vector<double> ratios(const std::vector<Steps>& models, const std::string& slow, const std::string& fast) {
  std::vector<double> list;
  for (const Steps& steps : models) list.push_back(steps.at(slow) / steps.at(fast));
  return list;
}

}  // namespace

Recomputed fsmoe_model_speedups(const JsonReader& settings, FilesRead& files) {
  const std::vector<std::string> systems = read_strings(settings.at("systems"));
  std::vector<Steps> models;
  Recomputed result;
  for (const JsonReader& each : settings.at("experiments").elements()) {
    const Experiment e = read_experiment(each, files);
    Steps steps;
    for (const std::string& system : systems) steps[system] = step_seconds(e, load_system(system, files));
    result.notes.push_back(fmt::format("{} on {}, {} layers: deepspeed_moe {:.0f} ms, fsmoe {:.0f} ms", e.model.name,
                                       e.cluster.name, e.workload.layers, 1e3 * steps.at("deepspeed_moe"),
                                       1e3 * steps.at("fsmoe")));
    models.push_back(std::move(steps));
  }
  std::vector<std::pair<std::string, double>> slowness;
  for (const std::string& system : systems) {
    slowness.emplace_back(system, mean(ratios(models, system, "fsmoe")));
    if (system != "fsmoe" && system != "deepspeed_moe") result.values["mean over " + system] = slowness.back().second;
  }
  const std::vector<double> fsmoe = ratios(models, "deepspeed_moe", "fsmoe");
  const std::vector<double> tutel = ratios(models, "deepspeed_moe", "tutel");
  result.values["fsmoe over deepspeed_moe, least"] = std::ranges::min(fsmoe);
  result.values["fsmoe over deepspeed_moe, most"] = std::ranges::max(fsmoe);
  result.values["tutel over deepspeed_moe, least"] = std::ranges::min(tutel);
  result.values["tutel over deepspeed_moe, most"] = std::ranges::max(tutel);
  result.values["order by step time"] = in_order(slowness);
  return result;
}

}  // namespace dovetail::bench
