// SPDX-License-Identifier: Apache-2.0
// Planners that learn, judged by measured times: a made-up training goes through the sizes of a grid, and each of its
// steps takes what the chosen plan really took at that size.
#pragma once
#include <span>
#include <vector>

#include "bench/validate/validation_grid.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

struct MeasuredSize {
  const GridSize* size = nullptr;
  const ValidationCell* cell = nullptr;
};

// Whether the grid predicts other sizes that differ from this one in their tokens alone.
bool has_alike(const ValidationGrid& grid, const GridSize& size);

// One outcome for each of the grid's online planners and each set of sizes that differ in their tokens alone, of which
// there are two at least. Its strategies are those plans of the system that were measured at all of these sizes.
std::vector<OnlineOutcome> replay_online(const ValidationGrid& grid, std::span<const MeasuredSize> measured,
                                         std::uint64_t seed);

}  // namespace dovetail::bench
