// SPDX-License-Identifier: Apache-2.0
// Exchanges blocks among equal places of all nodes first, as one message to each, and then inside the nodes.
#pragma once
#include <functional>
#include <numeric>

#include "models/extend/custom_all_to_all.hpp"
#include "models/plan/collectives/step.hpp"

class NodesFirst : public dovetail::CustomAllToAll {
 public:
  std::string name() const override { return "nodes-first"; }

  std::vector<dovetail::CollectiveStep> steps(std::span<const int> levels) const override {
    int inside = std::accumulate(levels.begin(), levels.end(), 1, std::multiplies<>()), outside = 1;
    std::vector<dovetail::CollectiveStep> steps;
    for (auto size = levels.rbegin(); size != levels.rend(); ++size) {
      inside /= *size;
      steps.push_back(dovetail::exchange_step({inside, *size}, outside, inside));
      outside *= *size;
    }
    return steps;
  }
};
