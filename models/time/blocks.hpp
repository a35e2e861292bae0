// Tensors that take over one another's memory (Tensor::buffer) make one block: what an allocator or an executor sees.
#pragma once
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail {

struct Block {
  TensorId first;             // its first occupant: place and persistence are its
  std::int64_t elements = 0;  // most of any occupant, as bytes
  Bytes bytes;
};

struct Blocks {
  std::vector<Block> all;
  std::vector<std::int32_t> of_tensor;  // by TensorId: index into `all`
};
Blocks memory_blocks(const Schedule& schedule);

}  // namespace dovetail
