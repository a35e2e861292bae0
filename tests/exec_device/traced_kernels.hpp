// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled with hooks, each with one way to touch memory.
#pragma once
#include <cstdint>

#include "exec/device/queue.hpp"

namespace dovetail::test {

void copy_numbers(exec::Queue& queue, const double* from, double* to, std::int64_t count);
void add_every_second(exec::Queue& queue, const double* from, double* to, std::int64_t count);
void copy_packs(exec::Queue& queue, const std::uint16_t* from, std::uint16_t* to, std::int64_t count);
// A struct that is no power of two long, and as many bytes as are known at run time only.
void copy_structs(exec::Queue& queue, const std::int32_t* from, std::int32_t* to, std::int64_t count);
void copy_bytes(exec::Queue& queue, const std::byte* from, std::byte* to, std::int64_t bytes);

}  // namespace dovetail::test
