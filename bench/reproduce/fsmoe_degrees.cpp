// SPDX-License-Identifier: Apache-2.0
// How many of FSMoE's 1,458 layers have different best degrees forward and backward, by several readings.
#include <array>
#include <functional>

#include "bench/pipeline/fsmoe_layers.hpp"
#include "bench/reproduce/tables.hpp"
#include "planners/closed_form/layer_times.hpp"

namespace dovetail::bench {
namespace {

using planners::LayerTimes;
using planners::MoeTimes;

// The degree with the least paper_case time.
int paper_degree(const MoeTimes& moe, int largest, Seconds all_reduce) {
  int best = 1;
  for (int degree = 2; degree <= largest; ++degree)
    if (planners::paper_case(moe, degree, all_reduce).time < planners::paper_case(moe, best, all_reduce).time)
      best = degree;
  return best;
}

struct Reading {
  const char* name;
  std::function<int(const MoeTimes&, Seconds all_reduce)> degree;
  bool all_reduce = false;  // the backward pass carries the gradients of one layer
};

}  // namespace

Recomputed fsmoe_degrees(const JsonReader& settings, FilesRead&) {
  const int largest = settings.integer("largest_degree", 1, 1000);
  const std::vector<int> few = read_integer_axis(settings.at("few_degrees"));
  const auto exact = [&](CommStreams streams) {
    return [=](const MoeTimes& moe, Seconds r) { return planners::best_degree(moe, streams, r, largest).degree; };
  };
  const auto of_few = [&](const MoeTimes& moe, Seconds r) {
    return planners::best_degree(moe, CommStreams::InterIntra, r, few).degree;
  };
  const auto paper = [&](const MoeTimes& moe, Seconds r) { return paper_degree(moe, largest, r); };
  const std::array readings{
      Reading{"exact makespans", exact(CommStreams::InterIntra)},
      Reading{"exact makespans, backward with the layer's all-reduce", exact(CommStreams::InterIntra), true},
      Reading{"exact makespans of one communication stream", exact(CommStreams::One)},
      Reading{"exact makespans, degrees 1, 2, 4, 8", of_few},
      Reading{"the paper's T1 to T4", paper},
      Reading{"the paper's T1 to T4, backward with the layer's all-reduce", paper, true}};
  std::array<int, readings.size()> different{};
  for (const Experiment& layer : thinned(fsmoe_layers('b'), settings.integer_or("every", 1, 1))) {
    const LayerTimes t = planners::layer_times(layer);
    const Seconds gradients =
        t.all_reduce_alpha + t.all_reduce_per_element * static_cast<double>(t.dense_elements.front());
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const Reading& r = readings[i];
      different[i] +=
          r.degree(t.forward.moe, Seconds(0)) != r.degree(t.backward.moe, r.all_reduce ? gradients : Seconds(0));
    }
  }
  Recomputed result;
  for (std::size_t i = 0; i < readings.size(); ++i) result.values[readings[i].name] = double(different[i]);
  return result;
}

}  // namespace dovetail::bench
