// SPDX-License-Identifier: Apache-2.0
// The order in which the chunks of an MoE layer are enqueued, whatever the pass: each chunk is sent, worked on and
// brought back.
#pragma once
#include <vector>

#include "models/plan/plan.hpp"

namespace dovetail::builder {

enum class Turn { Send, Work, Bring };

struct ChunkTurn {
  Turn turn = Turn::Send;
  int chunk = 0;
  friend bool operator==(const ChunkTurn&, const ChunkTurn&) = default;
};

// DispatchFirst: S1 S2 .. W1 W2 .. B1 B2 ..  Alternate: S1, S2 W1 B1, S3 W2 B2, ..  ReadyFirst: as Alternate, which
// is then reordered. With rings of `depth` buffers (0: no rings) a chunk is sent only after the one `depth` before it
// was worked on, and that one is brought back before it is worked on: Alternate with one buffer is S1 W1 B1, S2 W2 B2;
// DispatchFirst needs a depth of at least the degree.
std::vector<ChunkTurn> chunk_order(Order order, int degree, int depth = 0);

}  // namespace dovetail::builder
