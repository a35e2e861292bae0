// SPDX-License-Identifier: Apache-2.0
// A schedule's decisions about the numbers that a step computes, beyond the model: which tokens compete for which
// capacity rows, and where rows are rounded. All else is order.
#pragma once
#include <cstdint>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

struct ComputeRules {
  int token_chunks = 0;                              // where attention is chunked: into how many; else 0
  Wire dispatch = Wire::Same, combine = Wire::Same;  // formats in which rows are really sent
  Wire dispatch_back = Wire::Same;                   // of gradients that go back from dispatched rows
  int micro_batches = 1;                             // each is gated by itself

  ComputeRules exact() const { return {token_chunks, Wire::Same, Wire::Same, Wire::Same, micro_batches}; }
  bool rounds() const { return dispatch != Wire::Same || combine != Wire::Same; }
};
ComputeRules rules_of(const Schedule& schedule);

// All tokens, or the chunks.
std::vector<TokenPart> token_parts(const LayerVolumes& volumes, int token_chunks);

// The place of the token at each position of a model-parallel group's samples (one sample after another) among the
// group's L tokens as its ranks hold them: by rank, then by chunk; in a chunk by sample and position.
std::vector<std::int64_t> token_rows(const LayerVolumes& volumes, int token_chunks);

}  // namespace dovetail::exec
