// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/held_over.hpp"

#include <algorithm>
#include <vector>

#include "models/time/blocks.hpp"

namespace dovetail::planners {

Bytes held_over(const Schedule& s, bool rows) {
  const Blocks blocks = memory_blocks(s);
  IdVector<BlockId, char> made(blocks.all.size()), needed(blocks.all.size());
  const bool one_pass = rows && s.micro_batches == 1 && s.classes.size() == 1;
  for (const Op& op : s.ops) {
    if (op.pass() == Phase::Forward)
      for (TensorId t : s.writes_of(op)) made[blocks.of_tensor[t]] = one_pass ? 1 : 0;
    else
      for (TensorId t : s.reads_of(op)) needed[blocks.of_tensor[t]] = 1;
  }
  std::vector<Bytes> held(s.classes.size());
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    if (t.place == Place::Device && (t.persistent || (made[b] != 0 && needed[b] != 0)))
      held[static_cast<std::size_t>(t.rank_class)] += blocks.all[b].bytes;
  }
  return std::ranges::max(held);
}

}  // namespace dovetail::planners
