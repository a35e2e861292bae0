#include "models/builder/chunk_order.hpp"

namespace dovetail::builder {

std::vector<ChunkTurn> chunk_order(Order order, int degree) {
  std::vector<ChunkTurn> turns;
  turns.reserve(3 * static_cast<std::size_t>(degree));
  if (order == Order::Alternate) {
    turns.push_back({Turn::Send, 0});
    for (int i = 0; i < degree; ++i) {
      if (i + 1 < degree) turns.push_back({Turn::Send, i + 1});
      turns.push_back({Turn::Work, i});
      turns.push_back({Turn::Bring, i});
    }
    return turns;
  }
  for (Turn turn : {Turn::Send, Turn::Work, Turn::Bring})
    for (int i = 0; i < degree; ++i) turns.push_back({turn, i});
  return turns;
}

}  // namespace dovetail::builder
