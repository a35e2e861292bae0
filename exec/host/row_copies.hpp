// SPDX-License-Identifier: Apache-2.0
// The rows of chunks that belong to choices: all copies of a row, wherever they stand.
#pragma once
#include <algorithm>

#include "exec/host/host_kernels.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {

// visit(row) for each copy of a place's row that the chunks hold.
template <class Scalar, class Visit>
void for_each_copy(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks, std::int64_t place, Visit visit) {
  const std::int64_t expert = place / shape.capacity, slot = place % shape.capacity + shape.first_slot;
  std::int64_t copies = 0;
  for (const Chunk<Scalar>& chunk : chunks) {
    if (!chunk.holds(slot)) continue;
    const auto in_block = [&](std::int64_t block) {
      ++copies;
      visit(chunk.data + (block * chunk.rows.size() + slot - chunk.rows.first) * shape.hidden);
    };
    if (chunk.expert < 0)
      shape.placement.for_each_block(expert, chunk.peers, in_block);
    else if (chunk.expert == expert)
      in_block(0);
  }
  if (copies == 0) throw InternalError("no chunk holds a slot");
}

// visit(entry, choice) for those that are not dropped.
template <class Scalar, class Visit>
void for_each_routed(const LayerShape& shape, const Scalar* routing, Visit visit) {
  for (std::int64_t i = 0; i < shape.routing_entries(); ++i)
    if (const RoutedChoice<Scalar> choice(routing, i); !choice.dropped()) visit(i, choice);
}

template <class Scalar>
void clear(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks) {
  const RowPlacement& placement = shape.placement;
  for (const Chunk<Scalar>& chunk : chunks) {
    const std::int64_t peers = chunk.peers.size() > 0 ? chunk.peers.size() : placement.peers;
    const std::int64_t blocks = placement.places.empty() ? shape.experts : peers * placement.positions;
    std::fill_n(chunk.data, (chunk.expert < 0 ? blocks : 1) * chunk.rows.size() * shape.hidden, Scalar(0));
  }
}

}  // namespace dovetail::exec
