// SPDX-License-Identifier: Apache-2.0
#include "models/price/ready_first.hpp"

#include "models/price/list_scheduler.hpp"

namespace dovetail {
namespace {

// The op that can begin first. No other could begin earlier, since it waits for one that is not placed.
std::size_t first_to_begin(const ListScheduler& scheduler, std::span<const OpId> candidates) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const Seconds start = scheduler.start(candidates[i]), least = scheduler.start(candidates[best]);
    if (start < least || (start == least && candidates[i] < candidates[best])) best = i;
  }
  return best;
}

}  // namespace

Schedule ready_first(const PricedSchedule& priced) {
  const Schedule& s = *priced.schedule;
  const auto in_turn = [&](const Op& op) { return s.streams[op.stream].kind == StreamKind::Compute; };
  return reordered(s, ListScheduler(s, priced.duration, in_turn).order(first_to_begin));
}

}  // namespace dovetail
