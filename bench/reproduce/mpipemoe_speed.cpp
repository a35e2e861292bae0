// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's figures of time: speed-ups, the best number of chunks, and which restore strategy does better.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/reproduce/mpipemoe_layers.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/names.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::bench {
namespace {

struct Speeds {
  std::vector<double> over_fastermoe, over_fastmoe, of_pipelining;
};

// `baselines`: the experiment in which FastMoE and FasterMoE run.
Speeds speeds(const JsonReader& settings, const Calibration& baselines, FilesRead& files) {
  const System fastmoe = load_system("fastmoe", files), fastermoe = load_system("fastermoe", files),
               pipemoe = load_system("pipemoe_micro", files);
  Speeds speeds;
  for (const MpipemoeLayer& layer : mpipemoe_layers(settings, files)) {
    Experiment baseline = layer.experiment;
    baseline.calibration = baselines;
    const Seconds time = moe_time(layer.experiment, plan_moe(layer.experiment, pipemoe));
    speeds.over_fastmoe.push_back(moe_time(baseline, fastmoe.plan) / time);
    speeds.over_fastermoe.push_back(moe_time(baseline, fastermoe.plan) / time);
    speeds.of_pipelining.push_back(moe_time(layer.experiment, pipemoe.plan) / time);
  }
  return speeds;
}

void add_speeds(const Speeds& speeds, const std::string& how, Recomputed& result) {
  result.values["over FasterMoE, mean" + how] = mean(speeds.over_fastermoe);
  result.values["over FasterMoE, largest" + how] = std::ranges::max(speeds.over_fastermoe);
  result.values["over FastMoE, largest" + how] = std::ranges::max(speeds.over_fastmoe);
  result.values["order of times" + how] =
      in_order({{"PipeMoE", 1}, {"FasterMoE", mean(speeds.over_fastermoe)}, {"FastMoE", mean(speeds.over_fastmoe)}});
}

// The time of each strategy at its fastest degree.
std::array<Seconds, 4> strategy_times(const Experiment& e, System mpipemoe, Buffers buffers) {
  std::array<Seconds, 4> times;
  mpipemoe.planner.name = "exhaustive";  // of degrees: its own chooses the strategy too
  mpipemoe.plan.buffers = buffers;
  for (std::size_t i = 0; i < times.size(); ++i) {
    mpipemoe.plan.restore = std::array{Restore::S1, Restore::S2, Restore::S3, Restore::S4}[i];
    times[i] = moe_time(e, plan_moe(e, mpipemoe));
  }
  return times;
}

std::string faster_pair(const std::array<Seconds, 4>& t) {
  if (std::max(t[0], t[1]) < std::min(t[2], t[3])) return "S1, S2";
  if (std::max(t[2], t[3]) < std::min(t[0], t[1])) return "S3, S4";
  return "neither";
}

}  // namespace

Recomputed mpipemoe_fig8(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  const Experiment with = read_experiment(settings.at("experiment"), files);
  const Speeds alike = speeds(settings, *with.calibration, files);
  add_speeds(alike, "", result);
  const double rate = settings.at("baselines_tflops").number();
  add_speeds(speeds(settings, without_tensor_cores(*with.calibration, rate), files), ", tensor cores in PipeMoE alone",
             result);
  result.values["pipelining gains on moe-gpt3-s, 4096 tokens"] = alike.of_pipelining.front();
  result.values["pipelining gains, mean"] = mean(alike.of_pipelining);
  return result;
}

Recomputed mpipemoe_fig12(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const System pipemoe = load_system("pipemoe_micro", files);
  const std::vector<int> thresholds{2, 4, 8};
  std::map<int, double> first;  // tokens from which the best degree is at least that
  Recomputed result;
  for (int tokens : read_integer_axis(settings.at("tokens"))) {
    const Experiment e = mpipemoe_layer(base, settings.string("model"), tokens, files);
    const int best = plan_moe(e, pipemoe).forward_degree;
    for (int degree : thresholds)
      if (best >= degree) first.try_emplace(degree, tokens);
  }
  for (int degree : thresholds)
    result.values[fmt::format("n = {} or more is best from", degree)] =
        first.contains(degree) ? TableValue(first[degree]) : TableValue("never");
  return result;
}

Recomputed mpipemoe_fig13(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const System mpipemoe = load_system("mpipemoe", files);
  Recomputed result;
  for (int gpus : read_integer_axis(settings.at("gpus"))) {
    Experiment on = base;
    on.cluster.nodes = gpus / on.cluster.gpus_per_node;
    std::vector<std::string> orders;
    std::array<Seconds, 4> times;
    Experiment e;
    for (int tokens : read_integer_axis(settings.at("tokens"))) {
      e = mpipemoe_layer(on, settings.string("model"), tokens, files);
      times = strategy_times(e, mpipemoe, mpipemoe.plan.buffers);
      orders.push_back(in_order(
          {{"S1", times[0].value()}, {"S2", times[1].value()}, {"S3", times[2].value()}, {"S4", times[3].value()}}));
    }
    const std::string name = fmt::format("N = {}: ", gpus);
    result.values[name + "order"] = orders.back();
    result.values[name + "faster pair"] = faster_pair(times);
    result.values[name + "S2 or S4"] = times[1] < times[3] ? "S2" : "S4";
    result.values[name + "the same order in all batch sizes"] =
        std::ranges::count(orders, orders.front()) == static_cast<std::ptrdiff_t>(orders.size()) ? "yes" : "no";
    result.values[name + "faster pair, two buffers for T_M"] =
        faster_pair(strategy_times(e, mpipemoe, Buffers::DoubleHidden));
    const Plan picked = plan_moe(e, mpipemoe);
    result.values[name + "equation 10 picks"] = std::string(name_in(restore_names, picked.restore));
    result.values[name + "loss by equation 10"] = percent_more(moe_time(e, picked), std::ranges::min(times));
  }
  return result;
}

}  // namespace dovetail::bench
