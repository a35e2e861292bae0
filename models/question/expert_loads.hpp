// SPDX-License-Identifier: Apache-2.0
// How many tokens of each rank choose each expert, as the routing model of an experiment says.
#pragma once
#include <cstdint>
#include <vector>

#include "models/question/experiment.hpp"

namespace dovetail {

// How many of a rank's tokens choose each expert: whole numbers that add up to k T, none above T. Shares of the model
// are rounded by largest remainder; what exceeds T goes to the other experts in proportion.
std::vector<std::int64_t> expert_loads(const Experiment& experiment, int layer, int rank);

// Sums over all layers and ranks, at the workload's capacity; of a dense model nothing. Experts that choose and soft
// gates drop nothing.
struct RoutingSummary {
  std::int64_t choices = 0, dropped = 0;
  std::int64_t largest = 0;  // tokens of one rank in one expert
  double imbalance = 1;      // fullest expert over the mean, the worst layer's
};
RoutingSummary summarize_routing(const Experiment& experiment);

// The largest number of tokens of one rank in one expert, over all layers and ranks.
std::int64_t largest_load(const Experiment& experiment);

}  // namespace dovetail
