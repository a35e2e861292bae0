// SPDX-License-Identifier: Apache-2.0
// List scheduling: of all ops that could run next one is placed, again and again, each taking its
// duration alone. FIFO streams need an order that is fixed and the same on all ranks, so it is made ahead.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "models/schedule/schedule.hpp"

namespace dovetail {

class ListScheduler {
 public:
  // `in_turn`: ops that keep their order among those of their stream. Others come after those that stood before them.
  ListScheduler(const Schedule& schedule, const IdVector<OpId, Seconds>& durations,
                const std::function<bool(const Op&)>& in_turn);

  // The number of the next one among the ops that wait for nothing which is not placed.
  using Choice = std::function<std::size_t(const ListScheduler& scheduler, std::span<const OpId> candidates)>;
  std::vector<OpId> order(const Choice& choose);

  const Op& op(OpId id) const { return s_.ops[id]; }
  Seconds start(OpId id) const;  // if it were the next one
  Seconds finish(OpId id) const { return start(id) + durations_[id]; }

 private:
  void place(OpId id);

  const Schedule& s_;
  const IdVector<OpId, Seconds>& durations_;
  IdVector<OpId, int> waiting_;                // for ops that are not placed
  IdVector<OpId, Seconds> ready_;              // when those that are placed have finished
  IdVector<OpId, std::size_t> end_successor_;  // one past its last in successors_; its first is where op - 1 ends
  std::vector<OpId> successors_;
  IdVector<StreamId, Seconds> free_;
  std::vector<OpId> candidates_;
};

// The same ops and dependencies, op order[i] as number i.
Schedule reordered(const Schedule& schedule, std::span<const OpId> order);

}  // namespace dovetail
