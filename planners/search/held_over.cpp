#include "planners/search/held_over.hpp"

#include <algorithm>
#include <vector>

#include "models/time/blocks.hpp"

namespace dovetail::planners {

Bytes held_over(const Schedule& s, bool rows) {
  const Blocks blocks = memory_blocks(s);
  std::vector<bool> made(blocks.all.size()), needed(blocks.all.size());
  const auto block = [&](TensorId t) {
    return static_cast<std::size_t>(blocks.of_tensor[static_cast<std::size_t>(t)]);
  };
  const bool one_pass = rows && s.micro_batches == 1 && s.classes.size() == 1;
  for (const Op& op : s.ops) {
    if (op.phase == Phase::Forward)
      for (TensorId t : s.writes_of(op)) made[block(t)] = one_pass;
    else
      for (TensorId t : s.reads_of(op)) needed[block(t)] = true;
  }
  std::vector<Bytes> held(s.classes.size());
  for (std::size_t b = 0; b < blocks.all.size(); ++b) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    if (t.place == Place::Device && (t.persistent || (made[b] && needed[b])))
      held[static_cast<std::size_t>(t.rank_class)] += blocks.all[b].bytes;
  }
  return std::ranges::max(held);
}

}  // namespace dovetail::planners
