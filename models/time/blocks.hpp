// SPDX-License-Identifier: Apache-2.0
// Tensors that take over one another's memory (Tensor::buffer) make one block: what an allocator or an executor sees.
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail {

struct Block {
  TensorId first;             // its first occupant: place and persistence are its
  std::int64_t elements = 0;  // most of any occupant, as bytes
  Bytes bytes;
};

using BlockId = Id<struct BlockKey>;

struct Blocks {
  IdVector<BlockId, Block> all;
  IdVector<TensorId, BlockId> of_tensor;

  const Block& of(TensorId id) const { return all[of_tensor[id]]; }
};
Blocks memory_blocks(const Schedule& schedule);

}  // namespace dovetail
