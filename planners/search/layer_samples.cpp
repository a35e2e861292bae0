// SPDX-License-Identifier: Apache-2.0
#include "planners/search/layer_samples.hpp"

#include <algorithm>

#include "models/price/calibration.hpp"
#include "planners/search/search_time.hpp"
#include "planners/task/contest.hpp"

namespace dovetail::planners {

const LayerSample* LayerSamples::sample(Structure& structure, int forward, int backward) {
  auto [place, added] = structure.samples.try_emplace({forward, backward});
  if (added) {
    Plan plan = structure.plan;
    plan.forward_degree = forward;
    plan.backward_degree = backward;
    ++taken_;
    if (refusal(plan, task_.experiment)) return nullptr;
    place->second = if_answered([&] { return structure.volume->steps().sample(plan); });
  }
  return place->second ? &*place->second : nullptr;
}

std::pair<const LayerSample*, const LayerSample*> LayerSamples::passes(Structure& structure, int forward,
                                                                       int backward) {
  const bool apart = separable(structure.plan);
  const LayerSample* first = sample(structure, forward, apart ? forward : backward);
  return {first, apart ? sample(structure, backward, backward) : first};
}

bool LayerSamples::separable(const Plan& p) const {
  return p.scope != Scope::Block && p.restore == Restore::Keep && p.buffers == Buffers::PerChunk && !space_.tied &&
         p.micro_batches == 1 && task_.experiment.parallelism.pp == 1;
}

std::vector<int> LayerSamples::fastest_forward(Structure& structure, const std::function<bool(Seconds)>& beaten) {
  const Plan& plan = structure.plan;
  const Volume& volume = *structure.volume;
  std::vector<std::pair<Seconds, int>> degrees;
  for (int degree : space_.forward_degrees) degrees.emplace_back(volume.forward_floor(plan, degree), degree);
  std::ranges::stable_sort(degrees, {}, &std::pair<Seconds, int>::first);
  std::vector<std::pair<const LayerSample*, int>> samples;
  const LayerSample* best = nullptr;
  const bool any = task_.experiment.calibration->host.has_value();
  for (const auto& [floor, degree] : degrees) {
    if (beaten(volume.floor(plan, degree, 0)) || (!any && best != nullptr && floor >= best->forward.alone)) break;
    const LayerSample* found = sample(structure, degree, degree);
    if (found == nullptr) continue;
    samples.emplace_back(found, degree);
    if (best == nullptr || faster(found->forward.alone, best->forward.alone)) best = found;
  }
  std::vector<int> fastest;
  for (const auto& [found, degree] : samples)
    if (any || found == best || (plan.order == Order::ReadyFirst && faster(found->forward.chain, best->forward.alone)))
      fastest.push_back(degree);
  return fastest;
}

Seconds expected_time(const StepBound& steps, const LayerSample& forward, const LayerSample& backward) {
  PassSample there = forward.forward, back = backward.backward;
  there.chain = there.alone;
  back.chain = back.alone;
  return steps.of(there, back);
}

}  // namespace dovetail::planners
