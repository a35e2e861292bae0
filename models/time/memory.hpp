// SPDX-License-Identifier: Apache-2.0
// Memory of one rank over a timeline, by lifetimes: a tensor lives from the start of the first op that writes it to the
// end of the last that reads or writes it, a ring buffer from its first occupant to its last; persistent tensors live
// throughout. Times are those of the timeline: on a machine where ops take other times, lifetimes are others.
#pragma once
#include <vector>

#include "models/time/memory_kinds.hpp"
#include "models/time/timeline.hpp"

namespace dovetail {

struct MemoryUse {
  Bytes peak;        // of device memory: the most that lives at one time
  Bytes persistent;  // weights, gradients, optimizer states
  Seconds peak_at;
  Bytes arena;   // device memory that a planned arena takes, persistent tensors included; at least `peak`
  Bytes pinned;  // the same for pinned host memory
};
// LeftOut: `arena` and `pinned` stay 0. Planning them takes longer than all else.
enum class Arenas { Planned, LeftOut };
std::vector<MemoryUse> memory_by_class(const Schedule& schedule, const Timeline& timeline,
                                       Arenas arenas = Arenas::Planned);
// The memory of the class that needs most.
MemoryUse memory_use(const Schedule& schedule, const Timeline& timeline, Arenas arenas = Arenas::Planned);

// The device memory of each class at its own peak, by what it holds. The sum is the peak.
std::vector<MemoryByKind> memory_by_kind(const Schedule& schedule, const Timeline& timeline);

// Offsets in that arena, aligned to 256 bytes, by TensorId, of each rank class by itself (sizes: of the largest);
// tensors that no op uses have -1. Tensors that share a buffer share an address; device and host memory are counted
// apart.
struct MemoryPlan {
  IdVector<TensorId, std::int64_t> offsets;
  Bytes device, host;
};
MemoryPlan plan_memory(const Schedule& schedule, const Timeline& timeline);

}  // namespace dovetail
