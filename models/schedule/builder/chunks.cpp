// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/chunks.hpp"

#include <algorithm>

namespace dovetail::builder {

std::vector<ChunkRange> chunks_of(const StepContext& c, Phase phase, int layer) {
  const LayerVolumes& v = c.volumes(layer);
  const Plan& plan = c.plan();
  std::vector<ChunkRange> chunks;
  if (plan.split == Split::Peers) {
    for (std::int64_t first = 0; first < v.peers; first += plan.peer_group)
      chunks.push_back({{0, v.capacity}, {first, std::min(first + plan.peer_group, v.peers)}});
    return chunks;
  }
  const int degree = phase == Phase::Forward ? plan.forward_degree : plan.backward_degree_of(layer);
  chunks.reserve(static_cast<std::size_t>(degree));
  for (int i = 0; i < degree; ++i) chunks.emplace_back(chunk_rows(v.capacity, degree, i));
  return chunks;
}

}  // namespace dovetail::builder
