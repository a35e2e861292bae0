// SPDX-License-Identifier: Apache-2.0
// Copies and fills: how long they take, and how much of them really happens.
#pragma once
#include "tests/paper_gpu/streams.hpp"

namespace paper {

// From and to memory of the device or pinned memory. Anything else is pageable memory: a problem, and copied at once.
void copy(Stream& stream, void* to, const void* from, std::int64_t bytes);
void fill(Stream& stream, void* first, int byte, std::int64_t bytes);
// While the host waits. It waits for no stream that does not wait for the default stream.
void copy_now(void* to, const void* from, std::int64_t bytes);

}  // namespace paper
