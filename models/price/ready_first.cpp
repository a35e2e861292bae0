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
      ++waiting_[at(after)];
      ++end_successor_[at(before) + 1];
    });
    std::partial_sum(end_successor_.begin(), end_successor_.end(), end_successor_.begin());
    successors_.resize(end_successor_.back());
    for_each_edge([this](OpId before, OpId after) { successors_[end_successor_[at(before)]++] = after; });
    for (std::size_t i = 0; i < s_.ops.size(); ++i)
      if (waiting_[i] == 0) candidates_.push_back(static_cast<OpId>(i));
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
  static std::size_t at(OpId op) { return static_cast<std::size_t>(op); }
  Seconds& free_of(OpId op) { return free_[static_cast<std::size_t>(s_.ops[at(op)].stream)]; }
  Seconds start(OpId op) { return std::max(ready_[at(op)], free_of(op)); }

  // Dependencies, and the order of computation, which stays.
  template <class Use>
  void for_each_edge(Use use) const {
    std::vector<OpId> last(s_.streams.size(), -1);
    for (std::size_t i = 0; i < s_.ops.size(); ++i) {
      const auto id = static_cast<OpId>(i);
      for (OpId before : s_.dependencies_of(s_.ops[i])) use(before, id);
      const auto stream = static_cast<std::size_t>(s_.ops[i].stream);
      if (s_.streams[stream].kind != StreamKind::Compute) continue;
      if (last[stream] >= 0) use(last[stream], id);
      last[stream] = id;
    }
  }

  void place(OpId op) {
    const Seconds finish = start(op) + priced_.duration[at(op)];
    free_of(op) = finish;
    for (std::size_t i = op == 0 ? 0 : end_successor_[at(op) - 1]; i < end_successor_[at(op)]; ++i) {
      const OpId next = successors_[i];
      ready_[at(next)] = std::max(ready_[at(next)], finish);
      if (--waiting_[at(next)] == 0) candidates_.push_back(next);
    }
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  std::vector<int> waiting_;                // by op: dependencies that are not placed
  std::vector<Seconds> ready_;              // by op: when those that are placed have finished
  std::vector<std::size_t> end_successor_;  // by op: one past its last in successors_; its first is where op - 1 ends
  std::vector<OpId> successors_;
  std::vector<Seconds> free_;  // by stream
  std::vector<OpId> candidates_;
};

}  // namespace

Schedule ready_first(const PricedSchedule& priced) {
  return reordered(*priced.schedule, ListScheduler(priced).order());
}

Schedule reordered(const Schedule& schedule, std::span<const OpId> order) {
  Schedule result = schedule;
  std::vector<OpId> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<OpId>(i);
    result.ops[i] = schedule.ops[static_cast<std::size_t>(order[i])];
  }
  for (OpId& dependency : result.dependencies) dependency = place[static_cast<std::size_t>(dependency)];
  return result;
}

}  // namespace dovetail
