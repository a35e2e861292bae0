// SPDX-License-Identifier: Apache-2.0
// Into what chunks a plan cuts the rows of an MoE layer.
#pragma once
#include <vector>

#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Split capacity: a share of every expert's capacity rows, as many as the pass has degrees. Split peers: all rows for
// one group of peers, the own rank's first, the same in both passes.
std::vector<ChunkRange> chunks_of(const StepContext& c, Phase phase, int layer);

}  // namespace dovetail::builder
