// SPDX-License-Identifier: Apache-2.0
// Tutel's adaptive choice of all-to-all algorithm and pipelining degree against static ones. The best of all of them
// stands for its dictionary, which finds the same after some trials.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/reproduce/moe_layer.hpp"
#include "bench/reproduce/tables.hpp"

namespace dovetail::bench {
namespace {

constexpr std::array degrees{1, 2, 4, 8};

// The plans of all degrees, first with linear all-to-alls, then with 2DH.
std::vector<Plan> strategies(const std::array<System, 2>& systems, const Experiment& e) {
  std::vector<Plan> plans;
  for (const System& system : systems) {
    Plan plan = system.plan;
    if (e.parallelism.esp > 1) plan.expert_sharding = ExpertSharding::EpDp;  // adaptive:r = 1
    const std::vector<Plan> some = in_degrees(e, plan, degrees);
    plans.insert(plans.end(), some.begin(), some.end());
  }
  return plans;
}

std::array<System, 2> both_systems(FilesRead& files) {
  return {load_system("tutel", files), load_system("tutel_2dh", files)};
}

int tokens_of(int samples, int sequence) {
  const std::int64_t tokens = std::int64_t{samples} * sequence;
  if (samples < 1 || sequence < 1 || tokens > JsonReader::int_max)
    throw InputError(
        fmt::format("{} samples of {} tokens, expected at least one of each and fewer in all", samples, sequence));
  return static_cast<int>(tokens);
}

// All combinations of the lists.
std::vector<LayerSizes> layers_of(const JsonReader& grid, int gpus) {
  std::vector<LayerSizes> layers;
  LayerSizes s;
  s.gpus = gpus;
  s.top_k = grid.integer("top_k", 1);
  s.capacity_factor = grid.number("capacity_factor");
  for (int samples : read_integer_axis(grid.at("samples")))
    for (int sequence : read_integer_axis(grid.at("sequence")))
      for (int hidden : read_integer_axis(grid.at("hidden")))
        for (int expert_hidden : read_integer_axis(grid.at("expert_hidden")))
          for (double experts : read_axis(grid.at("experts_per_gpu"))) {
            s.tokens = tokens_of(samples, sequence);
            s.hidden = hidden;
            s.expert_hidden = expert_hidden;
            s.experts = experts_on(gpus, experts);
            layers.push_back(s);
          }
  return layers;
}

}  // namespace

namespace {

std::string strategy_name(std::size_t i) {
  return fmt::format("{} of degree {}", i < degrees.size() ? "linear" : "2DH", degrees[i % degrees.size()]);
}

// How much slower each strategy is than the best, in percent, on every layer of the grid. Throws InputError for a layer
// that has fewer rows than the largest degree has chunks.
using Gains = std::array<std::vector<double>, 2 * degrees.size()>;
Gains gains_of(const Experiment& base, const std::array<System, 2>& systems, const JsonReader& grid, int gpus) {
  Gains gains;
  for (const LayerSizes& sizes : layers_of(grid, gpus)) {
    const Experiment e = moe_layer(base, sizes);
    std::vector<Seconds> times;
    for (const Plan& plan : strategies(systems, e)) times.push_back(moe_time(e, plan));
    if (times.size() != gains.size()) throw InputError("a layer of the grid has fewer rows than the largest degree");
    const Seconds best = *std::ranges::min_element(times);
    for (std::size_t i = 0; i < times.size(); ++i) gains[i].push_back(percent_more(times[i], best));
  }
  return gains;
}

// Calls `visit` with the GPUs, the gains and the published numbers of each scale.
template <class Visit>
void each_scale(const JsonReader& settings, FilesRead& files, Visit visit) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const std::array systems = both_systems(files);
  for (const JsonReader& scale : settings.at("scales").elements()) {
    const int gpus = scale.integer("gpus", 1);
    const std::vector<double> published = read_numbers(scale.at("published"));
    if (published.size() != Gains{}.size())
      scale.fail("published", fmt::format("{} numbers, expected {}", published.size(), Gains{}.size()));
    visit(gpus, gains_of(base, systems, settings.at("grid"), gpus), published);
  }
}

}  // namespace

Recomputed tutel_table7a(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  std::vector<double> errors;
  each_scale(settings, files, [&](int gpus, const Gains& gains, const std::vector<double>& published) {
    std::vector<double> own;
    for (std::size_t i = 0; i < gains.size(); ++i) {
      const double gain = mean(gains[i]);
      own.push_back(std::abs(gain - published[i]));
      result.values[fmt::format("{} GPUs: over {}", gpus, strategy_name(i))] = gain;
    }
    result.values[fmt::format("{} GPUs: mean absolute error", gpus)] = mean(own);
    errors.insert(errors.end(), own.begin(), own.end());
  });
  result.values["mean absolute error"] = mean(errors);
  return result;
}

Recomputed tutel_table7b(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  each_scale(settings, files, [&](int gpus, const Gains& gains, const std::vector<double>&) {
    for (std::size_t i = 0; i < gains.size(); ++i)
      result.values[fmt::format("{} GPUs: over {}", gpus, strategy_name(i))] = std::ranges::max(gains[i]);
  });
  return result;
}

Recomputed tutel_fig5(const JsonReader& settings, FilesRead& files) {
  Recomputed result;
  each_scale(settings, files, [&](int gpus, const Gains& gains, const std::vector<double>&) {
    for (std::size_t i = 0; i < gains.size(); ++i)
      result.values[fmt::format("{} GPUs: best with {}", gpus, strategy_name(i))] =
          static_cast<double>(std::ranges::count(gains[i], 0.0));
  });
  return result;
}

Recomputed tutel_fig22(const JsonReader& settings, FilesRead& files) {
  const Experiment base = read_experiment(settings.at("experiment"), files);
  const std::array systems = both_systems(files);
  Recomputed result;
  for (int factor : read_integer_axis(settings.at("factors"))) {
    double most = 0;
    for (int gpus : read_integer_axis(settings.at("gpus"))) {
      LayerSizes sizes;
      sizes.gpus = gpus;
      sizes = read_sizes(settings.at("layer"), sizes);
      sizes.capacity_factor = factor;
      const Experiment e = moe_layer(base, sizes);
      const std::vector<Plan> plans = strategies(systems, e);
      const double gain = percent_more(moe_time(e, plans.front()), fastest(e, plans));
      result.values[fmt::format("f {}, {} GPUs: gain over degree 1", factor, gpus)] = gain;
      most = std::max(most, gain);
    }
    result.values[fmt::format("f {}: largest gain over degree 1", factor)] = most;
  }
  return result;
}

}  // namespace dovetail::bench
