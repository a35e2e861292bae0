// The order in which the chunks of an MoE layer are enqueued, whatever the pass: each chunk is sent, worked on and
// brought back.
#pragma once
#include <vector>

#include "models/plan.hpp"

namespace dovetail::builder {

enum class Turn { Send, Work, Bring };

struct ChunkTurn {
  Turn turn = Turn::Send;
  int chunk = 0;
  friend bool operator==(const ChunkTurn&, const ChunkTurn&) = default;
};

// DispatchFirst: S1 S2 .. W1 W2 .. B1 B2 ..  Alternate: S1, S2 W1 B1, S3 W2 B2, ..
std::vector<ChunkTurn> chunk_order(Order order, int degree);

}  // namespace dovetail::builder
