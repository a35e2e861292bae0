// SPDX-License-Identifier: Apache-2.0
// FSMoE's table 5: mean speed-ups over Tutel on its 1,458 layers. A layer by itself has no earlier gradients to reduce
// beside it, so each is one of a stack: its time is what it adds to a step of more layers.
#include <fmt/format.h>

#include <algorithm>

#include "bench/pipeline/fsmoe_layers.hpp"
#include "bench/reproduce/tables.hpp"
#include "planners/closed_form/gradient_partition.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::bench {
namespace {

struct Stack {
  int few = 1, many = 2;  // layers
};

// The plan that is fastest by the closed forms of four_case. The planner itself tries others too, which takes longer.
Plan closed_form_plan(const Experiment& e, const System& system) {
  const std::vector<int> degrees = planners::allowed_degrees({e, system.plan, system.planner});
  const planners::LayerTimes times = planners::layer_times(e, system.plan);
  const CommStreams streams = system.plan.comm_streams;
  Plan plan = system.plan;
  plan.forward_degree = *std::ranges::min_element(degrees, {}, [&](int degree) {
    return planners::chunked_makespan(times.forward.moe, streams, times.capacity, degree);
  });
  return planners::with_partition(plan, planners::partition_gradients(times, streams, degrees));
}

// Times of a step, with the calibration's interference and with none.
struct Times {
  double shipped = 0, ideal = 0;
};

Plan plan_of(const Experiment& e, const System& system) {
  return system.planner.name == "four_case" ? closed_form_plan(e, system) : choose_plan(e, system);
}

Times step(const Experiment& layer, const System& system, int layers) {
  Experiment e = layer;
  e.model.layers = e.workload.layers = layers;
  Times times;
  times.shipped = step_seconds(e, plan_of(e, system));
  e.overlap = Overlap::Ideal;
  times.ideal = step_seconds(e, plan_of(e, system));
  return times;
}

Times added_by_a_layer(const Experiment& layer, const System& system, Stack stack) {
  const Times few = step(layer, system, stack.few), many = step(layer, system, stack.many);
  const int layers = stack.many - stack.few;
  return {(many.shipped - few.shipped) / layers, (many.ideal - few.ideal) / layers};
}

}  // namespace

Recomputed fsmoe_layer_speedups(const JsonReader& settings, FilesRead& files) {
  const std::vector<int> layers = read_integer_axis(settings.at("layers"));
  const Stack stack{layers.at(0), layers.at(1)};
  const System baseline = load_system(settings.string("baseline"), files);
  const std::vector<System> systems = read_systems(settings.at("systems"), files);
  Recomputed result;
  for (const char testbed : {'a', 'b'}) {
    std::map<std::string, std::vector<double>> speedups;
    for (const Experiment& layer : thinned(fsmoe_layers(testbed), settings.integer_or("every", 1, 1))) {
      const Times base = added_by_a_layer(layer, baseline, stack);
      for (const System& system : systems) {
        const Times own = added_by_a_layer(layer, system, stack);
        const std::string name = fmt::format("{}, {}", testbed == 'a' ? "A" : "B", system.name);
        speedups[name].push_back(base.shipped / own.shipped);
        speedups[name + ", ideal overlap"].push_back(base.ideal / own.ideal);
      }
    }
    for (const auto& [name, values] : speedups) result.values[name] = mean(values);
  }
  return result;
}

}  // namespace dovetail::bench
