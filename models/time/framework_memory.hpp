// SPDX-License-Identifier: Apache-2.0
// Device memory of a step where a framework allocates each tensor by itself, as PyTorch does, and nobody plans ahead:
// - A tensor that a plan cuts into chunks is allocated whole, and chunks are views of it. It lives from the first op
//   that writes a chunk to the last that uses one; so do buffers that chunks take over from one another.
// - Tensors are made and freed in program order, since the host runs ahead of the device and one stream's memory is
//   given out again at once.
// - What is persistent is allocated before the step.
// The arena of memory.hpp, in contrast, gives the memory of each chunk to others as soon as it is dead.
#pragma once
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail {

struct FrameworkMemory {
  Bytes allocated;  // the most at one time, each tensor rounded up to 512 bytes: torch.cuda.max_memory_allocated()
  Bytes reserved;   // what the allocator took from the device for it: torch.cuda.max_memory_reserved()
};
std::vector<FrameworkMemory> framework_memory_by_class(const Schedule& schedule);
// The memory of the class that needs most.
FrameworkMemory framework_memory(const Schedule& schedule);

}  // namespace dovetail
