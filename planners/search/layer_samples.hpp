// SPDX-License-Identifier: Apache-2.0
// Single layers looked at by themselves, between bounds that follow from the ops alone and the prediction of a whole
// step.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planners/search/plan_space.hpp"
#include "planners/search/volume.hpp"

namespace dovetail::planners {

// A volume arranged in one way, and what a layer of it takes by its forward and backward degree.
struct Structure {
  Plan plan;
  const Volume* volume;
  std::map<std::pair<int, int>, std::optional<LayerSample>> samples = {};
};

class LayerSamples {
 public:
  LayerSamples(const PlanningTask& task, const PlanSpace& space) : task_(task), space_(space) {}

  // Looks at each pair of degrees once. Null: it cannot be built, or its costs are not known.
  const LayerSample* sample(Structure& structure, int forward, int backward);

  // The samples to take the forward and the backward pass from; either may be null.
  std::pair<const LayerSample*, const LayerSample*> passes(Structure& structure, int forward, int backward);

  // Whether no pass depends on the other's degree.
  bool separable(const Plan& plan) const;

  // Forward degrees that may lead to the fastest plan, where passes are separable: the fastest one, with order
  // ready_first all that may be faster in a whole step, and all where launches take the host time, since the host
  // begins the backward pass as far ahead as the forward pass has let it. It samples by ascending bound, and ends at a
  // bound that is `beaten` or no better than the best sample.
  std::vector<int> fastest_forward(Structure& structure, const std::function<bool(Seconds)>& beaten);

  long taken() const { return taken_; }

 private:
  const PlanningTask& task_;
  const PlanSpace& space_;
  long taken_ = 0;
};

// The expected time of a step of such passes: as its bound, but with the contention inside of each pass.
Seconds expected_time(const StepBound& steps, const LayerSample& forward, const LayerSample& backward);

}  // namespace dovetail::planners
