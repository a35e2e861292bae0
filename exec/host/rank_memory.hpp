// SPDX-License-Identifier: Apache-2.0
// The memory of one rank on a host, for the steps of one schedule or for those of several in turn.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/schedule/schedule.hpp"
#include "models/time/blocks.hpp"

namespace dovetail::exec {

using Schedules = std::vector<std::shared_ptr<const Schedule>>;

// Buffers for the blocks (memory_blocks()) of each schedule. Tensors that outlive a step have one buffer for all
// schedules that know them by the same name (lasting_tensors.hpp). All others take the same buffers by turns, the
// largest block of one schedule that of the largest of another, because no step reads what another left there.
struct BufferPlan {
  std::vector<std::int64_t> elements;               // by buffer
  std::vector<IdVector<BlockId, int>> of_schedule;  // the buffer of each block; -1: of another class of ranks

  std::int64_t all_elements() const;
};
BufferPlan plan_buffers(const Schedules& schedules, int rank);

// The buffers themselves. Zero at first.
template <class Scalar>
class RankMemory {
 public:
  RankMemory(const Schedules& schedules, int rank) : plan_(plan_buffers(schedules, rank)) {
    for (const std::int64_t elements : plan_.elements) buffers_.emplace_back(static_cast<std::size_t>(elements));
  }
  // A block of a schedule, which has a number; null: it is of another class of ranks.
  Scalar* block(std::size_t schedule, BlockId id) {
    const int buffer = plan_.of_schedule[schedule][id];
    return buffer < 0 ? nullptr : buffers_[static_cast<std::size_t>(buffer)].data();
  }

 private:
  BufferPlan plan_;
  std::vector<std::vector<Scalar>> buffers_;
};

}  // namespace dovetail::exec
