// SPDX-License-Identifier: Apache-2.0
// MPipeMoE's figures of memory beside time.
#include <fmt/format.h>

#include <algorithm>

#include "bench/reproduce/mpipemoe_layers.hpp"
#include "bench/reproduce/support.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::bench {
namespace {

struct FootprintSystems {
  explicit FootprintSystems(FilesRead& files)
      : fastmoe(load_system("fastmoe", files)),
        fastermoe(load_system("fastermoe", files)),
        pipemoe(load_system("pipemoe_micro", files)),
        mpipemoe(load_system("mpipemoe", files)) {}
  System fastmoe, fastermoe, pipemoe, mpipemoe;
};

Plan in_degree(Plan plan, int degree) {
  plan.forward_degree = plan.backward_degree = degree;
  return plan;
}

struct Reached {
  double of_allocated, of_arena, of_equation;
};

// The saving of MPipeMoE over the saving by equation 6: relative to what PipeMoE allocates, to the arena planned for
// PipeMoE, and to the memory that equations 1 and 4 count.
Reached reached(const Experiment& e, const FootprintSystems& systems, int n) {
  const double b = e.workload.sequence, m = e.model.hidden, h = e.model.expert_hidden;
  const double saved = 2 * b * (2 * m * (n - 2) + h * (n - 1)) / n;
  const double counted = 4 * (e.model.experts * m + 2 * h * m) + 2 * (4 * b * m + b * h);
  const double phi = saved / counted;
  const Plan reusing = in_degree(systems.mpipemoe.plan, n), keeping = in_degree(systems.pipemoe.plan, n);
  const Bytes with = arena_of(e, reusing);
  return {(1 - allocated_of(e, reusing) / allocated_of(e, keeping)) / phi, (1 - with / arena_of(e, keeping)) / phi,
          (1 - with / (counted * size_of(e.workload.dtype))) / phi};
}

void add_points(const Experiment& e, const FootprintSystems& systems, Recomputed& result) {
  const std::vector<std::pair<std::string, Plan>> points{{"FastMoE", systems.fastmoe.plan},
                                                         {"FasterMoE", systems.fastermoe.plan},
                                                         {"PipeMoE n = 1", in_degree(systems.pipemoe.plan, 1)},
                                                         {"PipeMoE n = 4", in_degree(systems.pipemoe.plan, 4)},
                                                         {"PipeMoE", plan_moe(e, systems.pipemoe)},
                                                         {"MPipeMoE", plan_moe(e, systems.mpipemoe)}};
  std::vector<std::pair<std::string, double>> times, memory;
  for (const auto& [name, plan] : points) {
    times.emplace_back(name, milliseconds(moe_time(e, plan)));
    memory.emplace_back(name, allocated_of(e, plan).value() / gibibyte);
    result.values[name + ": time"] = times.back().second;
    result.values[name + ": memory"] = memory.back().second;
  }
  const auto least = [](const auto& of) {
    return std::ranges::min(of, {}, [](const auto& p) { return p.second; }).first;
  };
  result.values["fastest"] = least(times);
  result.values["least memory"] = least(memory);
}

}  // namespace

Recomputed mpipemoe_fig9_11(const JsonReader& settings, FilesRead& files) {
  const FootprintSystems systems(files);
  const std::vector<int> degrees = read_integer_axis(settings.at("degrees"));
  const double rate = settings.at("baselines_tflops").number();
  std::vector<double> memory, memory_of_arena, of_allocated, of_arena, of_equation;
  std::map<std::string, std::vector<double>> speed_up;
  for (const MpipemoeLayer& layer : mpipemoe_layers(settings, files)) {
    const Experiment& e = layer.experiment;
    const Plan plan = plan_moe(e, systems.mpipemoe), fastermoe = systems.fastermoe.plan;
    memory.push_back(100 * (1 - allocated_of(e, plan) / allocated_of(e, fastermoe)));
    memory_of_arena.push_back(100 * (1 - arena_of(e, plan) / arena_of(e, fastermoe)));
    const Seconds time = moe_time(e, plan);
    Experiment slower = e;
    slower.calibration = without_tensor_cores(*e.calibration, rate);
    for (const auto& [name, baseline] : {std::pair{"FasterMoE", fastermoe}, {"FastMoE", systems.fastmoe.plan}}) {
      const std::string over = fmt::format("speed-up over {}, largest", name);
      speed_up[over].push_back(moe_time(e, baseline) / time);
      speed_up[over + ", tensor cores in MPipeMoE alone"].push_back(moe_time(slower, baseline) / time);
    }
    for (int n : degrees) {
      const Reached share = reached(e, systems, n);
      of_allocated.push_back(share.of_allocated);
      of_arena.push_back(share.of_arena);
      of_equation.push_back(share.of_equation);
    }
  }
  Recomputed result;
  result.values["memory saved against FasterMoE, mean"] = mean(memory);
  result.values["memory saved against FasterMoE, largest"] = std::ranges::max(memory);
  for (const auto& [name, values] : speed_up) result.values[name] = std::ranges::max(values);
  result.values["planned arena: saved against FasterMoE, mean"] = mean(memory_of_arena);
  result.values["planned arena: saved against FasterMoE, largest"] = std::ranges::max(memory_of_arena);
  result.values["saved of what is allocated over equation 6, mean"] = 100 * mean(of_allocated);
  result.values["saved of what is allocated over equation 6, lowest"] = 100 * std::ranges::min(of_allocated);
  result.values["saved of the planned arena over equation 6, mean"] = 100 * mean(of_arena);
  result.values["saved of what the equations count over equation 6, mean"] = 100 * mean(of_equation);
  const JsonReader point = settings.at("point");
  add_points(mpipemoe_layer(read_experiment(settings.at("experiment"), files), point.string("model"),
                            point.integer("tokens", 1, largest_setting), files),
             systems, result);
  return result;
}

}  // namespace dovetail::bench
