// SPDX-License-Identifier: Apache-2.0
// Memory of the paper GPU. Addresses on the device are only numbers: the host that follows one is killed, as it is with
// a real GPU, and none is given twice, so that a use of freed memory is always seen.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace paper {

enum class Place { Device, Pinned };

struct Allocation {
  std::uintptr_t first;
  std::int64_t bytes;
  Place place;
  std::byte* real;  // where the bytes are in host memory, which takes only as much as is written
  bool freed = false;
};

// Null where the memory is used up.
void* allocate(std::int64_t bytes, Place place);
// False: it was not allocated there, or is free already.
bool release(void* first, Place place);

// The allocation that holds this byte, also one that was freed; null where none does.
const Allocation* allocation_of(const void* at);
bool is_device_address(const void* at);

// A problem unless all these bytes are in one allocation. `who`: "a copy writes".
bool reachable(const void* at, std::int64_t bytes, const std::string& who);

// The place of a reachable byte in host memory.
template <class Item>
Item* real(Item* at) {
  const Allocation* const a = allocation_of(at);
  return reinterpret_cast<Item*>(a->real + (reinterpret_cast<std::uintptr_t>(at) - a->first));
}

}  // namespace paper
