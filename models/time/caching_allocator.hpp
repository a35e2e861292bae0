// SPDX-License-Identifier: Apache-2.0
// The caching allocator through which PyTorch takes device memory (c10/cuda/CUDACachingAllocator.cpp of 1.9 to 2.x,
// with its default settings and one stream):
// - A request is rounded up to 512 bytes.
// - It gets the smallest free block that is large enough. The rest of the block stays free: any rest in the pool of
//   requests of at most 1 MiB, more than 1 MiB in the other.
// - Where there is none, a segment is taken from the device: 2 MiB for the small pool, 20 MiB for requests below
//   10 MiB, and else the request rounded up to 2 MiB.
// - Free neighbours become one block. Segments stay with the allocator.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace dovetail {

class CachingAllocator {
 public:
  using Address = std::int64_t;  // segments lie behind one another

  Address allocate(std::int64_t bytes);  // at least one
  void free(Address address);            // what allocate() gave; check() fails otherwise

  std::int64_t allocated() const { return allocated_; }            // in use now, as rounded
  std::int64_t most_allocated() const { return most_allocated_; }  // torch.cuda.max_memory_allocated()
  std::int64_t reserved() const { return reserved_; }              // taken from the device: max_memory_reserved()

 private:
  struct Block {
    std::int64_t bytes = 0, segment = 0;  // the latter: the number of its segment
    bool small = false, free = false;
  };
  using Blocks = std::map<Address, Block>;
  using Free = std::set<std::tuple<bool, std::int64_t, Address>>;  // small, bytes, address

  Blocks::iterator take_segment(bool small, std::int64_t bytes);
  void split(Blocks::iterator block, std::int64_t bytes);
  void join(Blocks::iterator before, Blocks::iterator after);

  Blocks blocks_;
  Free free_;
  std::int64_t allocated_ = 0, most_allocated_ = 0, reserved_ = 0, segments_ = 0;
};

}  // namespace dovetail
