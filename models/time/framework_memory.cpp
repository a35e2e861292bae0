// SPDX-License-Identifier: Apache-2.0
#include "models/time/framework_memory.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "models/time/blocks.hpp"
#include "models/time/caching_allocator.hpp"

namespace dovetail {
namespace {

// A tensor as the framework knows it, with all its chunks.
struct Whole {
  std::int64_t bytes = 0;
  int rank_class = 0;
  OpId first, last;  // that use it
  bool persistent = false;
  CachingAllocator::Address address = 0;
};

using WholeId = Id<struct WholeKey>;

// The chunks of one tensor are alike in these. `made_in`: what the backward pass brings back is another one.
auto name_of(const Tensor& t, Phase made_in) {
  return std::tuple(t.kind, t.gradient, made_in, t.recomputed, t.persistent, t.dtype, t.rank_class, t.layer,
                    t.micro_batch, t.step, t.expert);
}

// The phase of the first op that writes into each block; that of the forward pass where none does.
IdVector<BlockId, Phase> phases_of(const Schedule& s, const Blocks& blocks) {
  IdVector<BlockId, Phase> phases(blocks.all.size(), Phase::Forward);
  IdVector<BlockId, bool> written(blocks.all.size(), false);
  for (const Op& op : s.ops)
    for (TensorId t : s.writes_of(op))
      if (const BlockId block = blocks.of_tensor[t]; !written[block]) {
        phases[block] = op.pass();
        written[block] = true;
      }
  return phases;
}

struct Wholes {
  IdVector<WholeId, Whole> all;
  IdVector<TensorId, WholeId> of_tensor;  // none: in host memory
};

// Chunks are joined; tensors without chunks are what they are.
Wholes whole_tensors(const Schedule& s) {
  const Blocks blocks = memory_blocks(s);
  const IdVector<BlockId, Phase> made_in = phases_of(s, blocks);
  Wholes wholes;
  IdVector<BlockId, WholeId> of_block;
  std::map<decltype(name_of(Tensor(), Phase())), WholeId> chunked;
  for (const BlockId b : blocks.all.ids()) {
    const Tensor& t = s.tensors[blocks.all[b].first];
    WholeId whole;
    if (t.place == Place::Device) {
      WholeId& known = chunked.try_emplace(name_of(t, made_in[b])).first->second;
      const bool joins = t.chunk >= 0 && known.exists();
      whole = joins ? known : wholes.all.add({0, t.rank_class, {}, {}, t.persistent, 0});
      if (t.chunk >= 0) known = whole;
      wholes.all[whole].bytes += static_cast<std::int64_t>(blocks.all[b].bytes.value());
    }
    of_block.push_back(whole);
  }
  for (const BlockId b : blocks.of_tensor) wholes.of_tensor.push_back(of_block[b]);
  return wholes;
}

void find_lives(const Schedule& s, Wholes& wholes) {
  const auto use = [&](TensorId t, OpId op) {
    if (!wholes.of_tensor[t].exists()) return;
    Whole& whole = wholes.all[wholes.of_tensor[t]];
    if (!whole.first.exists()) whole.first = op;
    whole.last = op;
  };
  for (const OpId op : s.ops.ids()) {
    for (TensorId t : s.writes_of(s.ops[op])) use(t, op);
    for (TensorId t : s.reads_of(s.ops[op])) use(t, op);
  }
}

FrameworkMemory memory_of(const Schedule& s, Wholes& wholes, int rank_class) {
  CachingAllocator allocator;
  IdVector<OpId, std::vector<WholeId>> made(s.ops.size()), freed(s.ops.size());
  for (const WholeId w : wholes.all.ids()) {
    Whole& whole = wholes.all[w];
    if (whole.rank_class != rank_class || whole.bytes == 0) continue;
    if (whole.persistent) {
      allocator.allocate(whole.bytes);
    } else if (whole.first.exists()) {
      made[whole.first].push_back(w);
      freed[whole.last].push_back(w);
    }
  }
  for (const OpId op : s.ops.ids()) {
    for (const WholeId w : made[op]) wholes.all[w].address = allocator.allocate(wholes.all[w].bytes);
    for (const WholeId w : freed[op]) allocator.free(wholes.all[w].address);
  }
  const auto bytes = [](std::int64_t count) { return Bytes(static_cast<double>(count)); };
  return {bytes(allocator.most_allocated()), bytes(allocator.reserved())};
}

}  // namespace

std::vector<FrameworkMemory> framework_memory_by_class(const Schedule& s) {
  Wholes wholes = whole_tensors(s);
  find_lives(s, wholes);
  std::vector<FrameworkMemory> classes;
  for (int c = 0; c < static_cast<int>(s.classes.size()); ++c) classes.push_back(memory_of(s, wholes, c));
  return classes;
}

FrameworkMemory framework_memory(const Schedule& s) {
  return std::ranges::max(framework_memory_by_class(s), {}, &FrameworkMemory::allocated);
}

}  // namespace dovetail
