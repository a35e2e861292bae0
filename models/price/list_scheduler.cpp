// SPDX-License-Identifier: Apache-2.0
#include "models/price/list_scheduler.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// Calls use(before, after) for each pair of ops of which one waits for the other.
template <class Use>
void for_each_edge(const Schedule& s, const std::function<bool(const Op&)>& in_turn, Use use) {
  IdVector<StreamId, OpId> last(s.streams.size());
  for (const OpId id : s.ops.ids()) {
    const Op& op = s.ops[id];
    for (const OpId before : s.dependencies_of(op)) use(before, id);
    if (last[op.stream].exists()) use(last[op.stream], id);
    if (in_turn(op)) last[op.stream] = id;
  }
}

}  // namespace

ListScheduler::ListScheduler(const Schedule& schedule, const IdVector<OpId, Seconds>& durations,
                             const std::function<bool(const Op&)>& in_turn)
    : s_(schedule),
      durations_(durations),
      waiting_(s_.ops.size()),
      ready_(s_.ops.size()),
      end_successor_(s_.ops.size() + 1),
      free_(s_.streams.size()) {
  for_each_edge(s_, in_turn, [this](OpId before, OpId after) {
    ++waiting_[after];
    ++end_successor_[OpId(before + 1)];
  });
  std::partial_sum(end_successor_.begin(), end_successor_.end(), end_successor_.begin());
  successors_.resize(end_successor_.back());
  for_each_edge(s_, in_turn, [this](OpId before, OpId after) { successors_[end_successor_[before]++] = after; });
  for (const OpId i : s_.ops.ids())
    if (waiting_[i] == 0) candidates_.push_back(i);
}

std::vector<OpId> ListScheduler::order(const Choice& choose) {
  std::vector<OpId> placed;
  placed.reserve(s_.ops.size());
  while (!candidates_.empty()) {
    const auto next = candidates_.begin() + static_cast<std::ptrdiff_t>(choose(*this, candidates_));
    placed.push_back(*next);
    candidates_.erase(next);
    place(placed.back());
  }
  check(placed.size() == s_.ops.size(), "ops of a cycle");
  return placed;
}

Seconds ListScheduler::start(OpId id) const {
  return std::max(ready_[id], free_[s_.ops[id].stream]);
}

void ListScheduler::place(OpId id) {
  const Seconds end = finish(id);
  free_[s_.ops[id].stream] = end;
  for (std::size_t i = id == 0 ? 0 : end_successor_[OpId(id - 1)]; i < end_successor_[id]; ++i) {
    const OpId next = successors_[i];
    ready_[next] = std::max(ready_[next], end);
    if (--waiting_[next] == 0) candidates_.push_back(next);
  }
}

Schedule reordered(const Schedule& schedule, std::span<const OpId> order) {
  Schedule result = schedule;
  result.copies.clear();
  IdVector<OpId, OpId> place(order.size());
  for (const OpId id : result.ops.ids()) {
    const OpId from = order[static_cast<std::size_t>(id)];
    place[from] = id;
    result.ops[id] = schedule.ops[from];
  }
  for (OpId& dependency : result.dependencies) dependency = place[dependency];
  return result;
}

}  // namespace dovetail
