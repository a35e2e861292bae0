// SPDX-License-Identifier: Apache-2.0
#include "models/time/blocks.hpp"

#include <algorithm>

namespace dovetail {

Blocks memory_blocks(const Schedule& schedule) {
  Blocks blocks;
  blocks.of_tensor.reserve(schedule.tensors.size());
  blocks.all.reserve(static_cast<std::size_t>(
      std::ranges::count_if(schedule.tensors, [](const Tensor& t) { return !t.buffer.exists(); })));
  for (const TensorId i : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[i];
    blocks.of_tensor.push_back(t.buffer.exists() ? blocks.of_tensor[t.buffer] : blocks.all.add({i, 0, Bytes(0)}));
    Block& block = blocks.all[blocks.of_tensor.back()];
    block.elements = std::max(block.elements, t.elements);
    block.bytes = std::max(block.bytes, t.bytes());
  }
  return blocks;
}

}  // namespace dovetail
