// SPDX-License-Identifier: Apache-2.0
#include "models/price/ready_first.hpp"

#include <algorithm>
#include <numeric>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

// List scheduling: of all ops that could run next, the one that can begin first is placed, again and again. Nothing
// that is not among them yet could begin earlier, since it waits for one that is not placed.
class ListScheduler {
 public:
  explicit ListScheduler(const PricedSchedule& priced)
      : priced_(priced),
        s_(*priced.schedule),
        waiting_(s_.ops.size()),
        ready_(s_.ops.size()),
        end_successor_(s_.ops.size() + 1),
        free_(s_.streams.size()) {
    for_each_edge([this](OpId before, OpId after) {
      ++waiting_[after];
      ++end_successor_[OpId(before + 1)];
    });
    std::partial_sum(end_successor_.begin(), end_successor_.end(), end_successor_.begin());
    successors_.resize(end_successor_.back());
    for_each_edge([this](OpId before, OpId after) { successors_[end_successor_[before]++] = after; });
    for (const OpId i : s_.ops.ids())
      if (waiting_[i] == 0) candidates_.push_back(i);
  }

  std::vector<OpId> order() {
    std::vector<OpId> placed;
    placed.reserve(s_.ops.size());
    while (!candidates_.empty()) {
      const auto next = std::ranges::min_element(
          candidates_, [&](OpId a, OpId b) { return start(a) != start(b) ? start(a) < start(b) : a < b; });
      placed.push_back(*next);
      candidates_.erase(next);
      place(placed.back());
    }
    check(placed.size() == s_.ops.size(), "ops of a cycle");
    return placed;
  }

 private:
  Seconds& free_of(OpId op) { return free_[s_.ops[op].stream]; }
  Seconds start(OpId op) { return std::max(ready_[op], free_of(op)); }

  // Dependencies, and the order of computation, which stays.
  template <class Use>
  void for_each_edge(Use use) const {
    IdVector<StreamId, OpId> last(s_.streams.size());
    for (const OpId id : s_.ops.ids()) {
      for (OpId before : s_.dependencies_of(s_.ops[id])) use(before, id);
      const StreamId stream = s_.ops[id].stream;
      if (s_.streams[stream].kind != StreamKind::Compute) continue;
      if (last[stream].exists()) use(last[stream], id);
      last[stream] = id;
    }
  }

  void place(OpId op) {
    const Seconds finish = start(op) + priced_.duration[op];
    free_of(op) = finish;
    for (std::size_t i = op == 0 ? 0 : end_successor_[OpId(op - 1)]; i < end_successor_[op]; ++i) {
      const OpId next = successors_[i];
      ready_[next] = std::max(ready_[next], finish);
      if (--waiting_[next] == 0) candidates_.push_back(next);
    }
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  IdVector<OpId, int> waiting_;                // dependencies that are not placed
  IdVector<OpId, Seconds> ready_;              // when those that are placed have finished
  IdVector<OpId, std::size_t> end_successor_;  // one past its last in successors_; its first is where op - 1 ends
  std::vector<OpId> successors_;
  IdVector<StreamId, Seconds> free_;
  std::vector<OpId> candidates_;
};

}  // namespace

Schedule ready_first(const PricedSchedule& priced) {
  return reordered(*priced.schedule, ListScheduler(priced).order());
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
