// SPDX-License-Identifier: Apache-2.0
#include "models/time/caching_allocator.hpp"

#include <algorithm>
#include <iterator>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;
constexpr std::int64_t least_block = 512, most_small = mebibyte;
constexpr std::int64_t small_segment = 2 * mebibyte, large_segment = 20 * mebibyte;
constexpr std::int64_t least_own_segment = 10 * mebibyte, own_segments = 2 * mebibyte;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::int64_t segment_for(std::int64_t bytes) {
  if (bytes <= most_small) return small_segment;
  return bytes < least_own_segment ? large_segment : rounded_up(bytes, own_segments);
}

}  // namespace

CachingAllocator::Blocks::iterator CachingAllocator::take_segment(bool small, std::int64_t bytes) {
  const Address first = reserved_;
  reserved_ += bytes;
  free_.emplace(small, bytes, first);
  return blocks_.emplace(first, Block{bytes, segments_++, small, true}).first;
}

void CachingAllocator::split(Blocks::iterator at, std::int64_t bytes) {
  Block& block = at->second;
  const std::int64_t rest = block.bytes - bytes;
  if (block.small ? rest < least_block : rest <= most_small) return;
  blocks_.emplace(at->first + bytes, Block{rest, block.segment, block.small, true});
  free_.emplace(block.small, rest, at->first + bytes);
  block.bytes = bytes;
}

CachingAllocator::Address CachingAllocator::allocate(std::int64_t bytes) {
  check(bytes > 0, "an allocation of at least one byte");
  const std::int64_t rounded = rounded_up(bytes, least_block);
  const bool small = rounded <= most_small;
  const auto fit = free_.lower_bound({small, rounded, 0});
  const auto at = fit != free_.end() && std::get<0>(*fit) == small ? blocks_.find(std::get<2>(*fit))
                                                                   : take_segment(small, segment_for(rounded));
  free_.erase({small, at->second.bytes, at->first});
  at->second.free = false;
  split(at, rounded);
  allocated_ += at->second.bytes;
  most_allocated_ = std::max(most_allocated_, allocated_);
  return at->first;
}

// Nothing changes unless both are free and of one segment.
void CachingAllocator::join(Blocks::iterator before, Blocks::iterator after) {
  const Block &a = before->second, &b = after->second;
  if (!a.free || !b.free || a.segment != b.segment) return;
  free_.erase({before->second.small, before->second.bytes, before->first});
  free_.erase({after->second.small, after->second.bytes, after->first});
  before->second.bytes += after->second.bytes;
  blocks_.erase(after);
  free_.emplace(before->second.small, before->second.bytes, before->first);
}

void CachingAllocator::free(Address address) {
  const auto at = blocks_.find(address);
  check(at != blocks_.end() && !at->second.free, "memory is freed once, where it was given");
  allocated_ -= at->second.bytes;
  at->second.free = true;
  free_.emplace(at->second.small, at->second.bytes, address);
  if (const auto next = std::next(at); next != blocks_.end()) join(at, next);
  if (at != blocks_.begin()) join(std::prev(at), at);
}

}  // namespace dovetail
