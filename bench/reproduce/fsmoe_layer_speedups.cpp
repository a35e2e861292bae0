// FSMoE's table 5: mean speed-ups over Tutel on its 1,458 layers. A layer by itself has no earlier gradients to reduce
// beside it, so each is one of a stack: its time is what it adds to a step of more layers.
#include <fmt/format.h>

#include "bench/fsmoe_layers.hpp"
#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

struct Stack {
  int few = 1, many = 2;  // layers
};

double added_by_a_layer(const Experiment& layer, const System& system, Stack stack,
                        const std::vector<Interference>& contention) {
  const auto step = [&](int layers) {
    Experiment e = layer;
    e.model.layers = e.workload.layers = layers;
    SystemResult result = run_system(e, system);
    if (contention.empty()) return result.metrics.makespan.value();
    e.calibration.interference = contention;  // which the paper's planner does not know
    return run_plan(e, result.plan).metrics.makespan.value();
  };
  return (step(stack.many) - step(stack.few)) / (stack.many - stack.few);
}

// Mean over the layers of the first system's time over that of each other, in their order.
std::vector<double> mean_speedups(const std::vector<Experiment>& layers, const std::vector<System>& systems,
                                  Stack stack, const std::vector<Interference>& contention) {
  std::vector<std::vector<double>> speedups(systems.size() - 1);
  for (const Experiment& layer : layers) {
    const double base = added_by_a_layer(layer, systems.front(), stack, contention);
    for (std::size_t i = 1; i < systems.size(); ++i)
      speedups[i - 1].push_back(base / added_by_a_layer(layer, systems[i], stack, contention));
  }
  std::vector<double> means;
  for (const std::vector<double>& each : speedups) means.push_back(mean(each));
  return means;
}

}  // namespace

Recomputed fsmoe_layer_speedups(const JsonReader& settings, FilesRead& files) {
  const std::vector<int> stack = read_integers(settings.at("layers"));
  const int every = settings.integer_or("every", 1, 1);
  Recomputed result;
  for (const char testbed : {'a', 'b'}) {
    const std::string name(1, static_cast<char>(testbed - 'a' + 'A'));
    const std::vector<Experiment> layers = thinned(fsmoe_layers(testbed), every);
    const std::vector<System> all = read_systems(settings.at("systems"), files);
    const std::vector<double> means = mean_speedups(layers, all, {stack[0], stack[1]}, {});
    for (std::size_t i = 1; i < all.size(); ++i) result.values[fmt::format("{}, {}", name, all[i].name)] = means[i - 1];
    const std::vector<System> contended = read_systems(settings.at("contended_systems"), files);
    const Experiment slowed = read_experiment(settings.at("contention").at(name), files);
    const std::vector<double> slower =
        mean_speedups(layers, contended, {stack[0], stack[1]}, slowed.calibration.interference);
    for (std::size_t i = 1; i < contended.size(); ++i)
      result.values[fmt::format("{}, {} with contention", name, contended[i].name)] = slower[i - 1];
  }
  return result;
}

}  // namespace dovetail::bench
