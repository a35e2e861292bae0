#include "models/time/blocks.hpp"

#include <algorithm>

namespace dovetail {

Blocks memory_blocks(const Schedule& schedule) {
  Blocks blocks;
  blocks.of_tensor.reserve(schedule.tensors.size());
  for (const TensorId i : schedule.tensors.ids()) {
    const Tensor& t = schedule.tensors[i];
    if (t.buffer < 0) {
      blocks.of_tensor.push_back(static_cast<std::int32_t>(blocks.all.size()));
      blocks.all.push_back({i, 0, Bytes(0)});
    } else {
      blocks.of_tensor.push_back(blocks.of_tensor[static_cast<std::size_t>(t.buffer)]);
    }
    Block& block = blocks.all[static_cast<std::size_t>(blocks.of_tensor.back())];
    block.elements = std::max(block.elements, t.elements);
    block.bytes = std::max(block.bytes, t.bytes());
  }
  return blocks;
}

}  // namespace dovetail
