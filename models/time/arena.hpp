// SPDX-License-Identifier: Apache-2.0
// The places of tensors in one piece of memory, planned ahead from their lifetimes.
#pragma once
#include <cstdint>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail {

// Memory in use from `born` until just before `dead`.
struct MemoryRequest {
  std::int64_t bytes = 0;
  Seconds born, dead;
};

struct Arena {
  static constexpr std::int64_t alignment = 256;  // of offsets, bytes: what CUDA's allocators give
  std::vector<std::int64_t> offsets;              // by request
  std::int64_t bytes = 0;                         // the end of the last; at least the most in use at one time
};

// Requests in use at the same time get disjoint ranges. The result is the smallest of many greedy placements, not the
// optimum, which is hard to find. If more than a million pairs live together, it is one placement in the order of
// births (n log n), which was seen to take up to 3 % more than the most in use at one time.
Arena plan_arena(const std::vector<MemoryRequest>& requests);

}  // namespace dovetail
