// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/chunk_order.hpp"

#include "models/base/errors.hpp"

namespace dovetail::builder {

std::vector<ChunkTurn> chunk_order(Order order, int degree, int depth) {
  std::vector<ChunkTurn> turns;
  turns.reserve(3 * static_cast<std::size_t>(degree));
  if (order == Order::DispatchFirst) {
    check(depth == 0 || degree <= depth, "dispatch_first with more chunks than buffers");
    for (Turn turn : {Turn::Send, Turn::Work, Turn::Bring})
      for (int i = 0; i < degree; ++i) turns.push_back({turn, i});
    return turns;
  }
  const int ahead = depth == 1 ? 0 : 1;
  for (int i = 0, sent = 0; i < degree; ++i) {
    for (; sent < degree && sent <= i + ahead; ++sent) turns.push_back({Turn::Send, sent});
    turns.push_back({Turn::Work, i});
    turns.push_back({Turn::Bring, i});
  }
  return turns;
}

}  // namespace dovetail::builder
