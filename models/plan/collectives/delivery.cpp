// SPDX-License-Identifier: Apache-2.0
#include "models/plan/collectives/delivery.hpp"

#include <vector>

namespace dovetail {
namespace {

using Buffer = std::vector<std::int64_t>;  // by block: source * ranks + target; -1: nothing

// Steps are not trusted: theirs may be any numbers.
bool is_sound(const CollectiveStep& s, int ranks) {
  const std::int64_t blocks = std::int64_t{ranks} * ranks;
  for (const std::int64_t size : {s.outer, s.middle, s.parts, s.run})
    if (size < 1 || size > blocks) return false;
  if (s.every < 1 || s.subgroup.stride < 1 || s.subgroup.size < 1) return false;
  if (std::int64_t{s.subgroup.stride} * s.subgroup.size > ranks) return false;
  if (ranks % (s.subgroup.stride * s.subgroup.size) != 0) return false;
  if (s.kind != StepKind::Copy && (s.parts != s.subgroup.size || s.middle != 1)) return false;
  return s.outer * s.middle <= blocks && s.outer * s.middle * s.parts <= blocks && s.blocks() <= blocks;
}

std::string apply_step(const CollectiveStep& step, int ranks, std::vector<Buffer>& buffers) {
  std::vector<Buffer> next(static_cast<std::size_t>(ranks));
  for (Buffer& buffer : next) buffer.assign(static_cast<std::size_t>(step.target_blocks()), -1);
  for (int rank = 0; rank < ranks; ++rank)
    for (const Move& m : moves_from(step, rank))
      for (std::int64_t b = 0; b < m.blocks; ++b) {
        const Buffer& source = buffers[static_cast<std::size_t>(m.source)];
        Buffer& target = next[static_cast<std::size_t>(m.target)];
        const auto from = static_cast<std::size_t>(m.source_block + b),
                   to = static_cast<std::size_t>(m.target_block + b);
        if (from >= source.size() || to >= target.size()) return "a block outside of a buffer";
        if (source[from] < 0) return "a block that is not there is sent";
        if (target[to] >= 0) return "a block is overwritten";
        target[to] = source[from];
      }
  buffers = next;
  return "";
}

}  // namespace

std::string delivery_error(std::span<const CollectiveStep> steps, int ranks) {
  std::vector<Buffer> buffers(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int target = 0; target < ranks; ++target)
      buffers[static_cast<std::size_t>(rank)].push_back(std::int64_t{rank} * ranks + target);
  for (const CollectiveStep& step : steps) {
    if (!is_sound(step, ranks)) return "a step whose sizes or subgroup do not fit the ranks";
    if (std::string error = apply_step(step, ranks, buffers); !error.empty()) return error;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const Buffer& got = buffers[static_cast<std::size_t>(rank)];
    if (got.size() != static_cast<std::size_t>(ranks)) return "a buffer of another size";
    for (int source = 0; source < ranks; ++source)
      if (got[static_cast<std::size_t>(source)] != std::int64_t{source} * ranks + rank)
        return "a block in another's place";
  }
  return "";
}

}  // namespace dovetail
