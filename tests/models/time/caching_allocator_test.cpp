// SPDX-License-Identifier: Apache-2.0
// PyTorch's allocator: how it rounds, splits and joins.
#include "models/time/caching_allocator.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

}  // namespace

TEST_CASE("the allocator rounds requests to 512 bytes, and takes segments of 2 MiB for small ones") {
  CachingAllocator allocator;
  allocator.allocate(1);
  CHECK((allocator.allocated() == 512 && allocator.reserved() == 2 * mebibyte));
  const auto second = allocator.allocate(513);
  CHECK((allocator.allocated() == 512 + 1024 && allocator.reserved() == 2 * mebibyte));
  CHECK(second == 512);          // behind the first
  allocator.allocate(mebibyte);  // still small: 2 MiB less 1,536 bytes are left, which is enough
  CHECK(allocator.reserved() == 2 * mebibyte);
  allocator.allocate(mebibyte);  // and now they are not
  CHECK(allocator.reserved() == 4 * mebibyte);
  allocator.free(second);
  CHECK(allocator.allocated() == 512 + 2 * mebibyte);
  CHECK(allocator.most_allocated() == 512 + 1024 + 2 * mebibyte);
  CHECK(allocator.allocate(700) == 512);  // the smallest free block that is large enough
}

TEST_CASE("larger requests share segments of 20 MiB up to 10 MiB, and have their own beyond") {
  CachingAllocator allocator;
  const auto first = allocator.allocate(mebibyte + 1);
  CHECK(allocator.reserved() == 20 * mebibyte);
  const auto second = allocator.allocate(9 * mebibyte);
  CHECK(allocator.reserved() == 20 * mebibyte);
  // 20 - 10 MiB less 512 bytes are left: too little for 10 MiB, which are rounded up to 2 MiB as they are.
  const auto third = allocator.allocate(10 * mebibyte);
  CHECK(allocator.reserved() == 30 * mebibyte);
  allocator.allocate(10 * mebibyte + 1);
  CHECK(allocator.reserved() == 42 * mebibyte);
  // Neighbours join: 20 MiB in one piece. A rest of at most 1 MiB is given along.
  allocator.free(second);
  allocator.free(first);
  const auto before = allocator.allocated();
  CHECK(allocator.allocate(19 * mebibyte) == first);
  CHECK(allocator.allocated() - before == 20 * mebibyte);
  // Segments never join.
  allocator.free(third);
  allocator.free(first);
  CHECK(allocator.allocate(21 * mebibyte) == 42 * mebibyte);
  CHECK(allocator.reserved() == 64 * mebibyte);
}
