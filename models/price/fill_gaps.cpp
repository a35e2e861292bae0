// SPDX-License-Identifier: Apache-2.0
#include "models/price/fill_gaps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "models/price/list_scheduler.hpp"

namespace dovetail {
namespace {

bool of_weights(const Op& op) {
  return op.half == Half::Weights;
}

// By op, those that it has to wait for beside its dependencies, once gradients of weights leave their places: ops of
// one stream had these by their order.
class Waits {
 public:
  explicit Waits(const Schedule& s) : s_(s), all_(s.ops.size()), uses_(s.tensors.size()) {
    for (const OpId id : s.ops.ids()) {
      wait_for_uses(id);
      wait_for_last_micro_batch(id);
    }
  }

  const IdVector<OpId, std::vector<OpId>>& all() const { return all_; }

 private:
  // A use of a tensor by gradients of weights.
  struct Use {
    OpId op;
    bool writes = false;
  };

  bool apart(OpId a, OpId b) const {  // each has its own part of the gradients
    const RowRange one = s_.ops[a].gradients, other = s_.ops[b].gradients;
    return one.size() > 0 && other.size() > 0 && !one.overlaps(other);
  }

  void wait_for_uses(OpId id) {
    const Op& op = s_.ops[id];
    const auto use = [&](TensorId tensor, bool writes) {
      std::vector<Use>& uses = uses_[tensor];
      for (const Use& before : uses)
        if ((before.writes || writes) && before.op != id && !apart(before.op, id)) all_[id].push_back(before.op);
      if (!of_weights(op)) return;
      if (writes) std::erase_if(uses, [&](const Use& u) { return u.op != id && !apart(u.op, id); });
      uses.push_back({id, writes});
    };
    for (const TensorId tensor : s_.reads_of(op)) use(tensor, false);
    for (const TensorId tensor : s_.writes_of(op)) use(tensor, true);
  }

  // An op on the inputs waits for the same op on the weights of the micro-batch before.
  void wait_for_last_micro_batch(OpId id) {
    const Op& op = s_.ops[id];
    if (op.half == Half::Both) return;
    std::vector<OpId>& weights = weights_[{s_.class_of(op), op.layer, op.kind}];
    if (of_weights(op)) return weights.push_back(id);
    std::erase_if(weights, [&](OpId before) {
      const bool earlier = s_.ops[before].micro_batch != op.micro_batch;
      if (earlier) all_[id].push_back(before);
      return earlier;
    });
  }

  const Schedule& s_;
  IdVector<OpId, std::vector<OpId>> all_;
  IdVector<TensorId, std::vector<Use>> uses_;
  std::map<std::tuple<int, int, OpKind>, std::vector<OpId>> weights_;  // of a class, layer and kind
};

void add_dependencies(const IdVector<OpId, std::vector<OpId>>& waits, Schedule& s) {
  std::vector<OpId> dependencies;
  dependencies.reserve(s.dependencies.size());
  for (const OpId id : s.ops.ids()) {
    const auto first = static_cast<std::int32_t>(dependencies.size());
    const auto own = s.dependencies_of(s.ops[id]);
    dependencies.insert(dependencies.end(), own.begin(), own.end());
    for (const OpId before : waits[id])
      if (std::find(dependencies.begin() + first, dependencies.end(), before) == dependencies.end())
        dependencies.push_back(before);
    s.ops[id].dependencies = {first, static_cast<std::int32_t>(dependencies.size())};
  }
  s.dependencies = std::move(dependencies);
}

// The op that can begin first of those that make no gradients of weights; before it the oldest gradients of weights
// that are done by then, since none that still waits could begin earlier. Without such an op, the oldest gradients of
// weights.
std::size_t next_or_what_fits(const ListScheduler& scheduler, std::span<const OpId> candidates) {
  const auto earlier = [&](OpId a, OpId b) {
    const Seconds start = scheduler.start(a), other = scheduler.start(b);
    return start < other || (start == other && a < b);
  };
  std::optional<std::size_t> next, fills;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!of_weights(scheduler.op(candidates[i])) && (!next || earlier(candidates[i], candidates[*next]))) next = i;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const OpId weights = candidates[i];
    if (!of_weights(scheduler.op(weights)) || (fills && candidates[*fills] < weights)) continue;
    if (!next || scheduler.finish(weights) <= scheduler.start(candidates[*next])) fills = i;
  }
  return fills ? *fills : *next;
}

}  // namespace

void free_gradients_of_weights(Schedule& schedule) {
  add_dependencies(Waits(schedule).all(), schedule);
}

Schedule fill_gaps(const PricedSchedule& priced) {
  Schedule s = *priced.schedule;
  free_gradients_of_weights(s);
  const auto in_turn = [](const Op& op) { return !of_weights(op); };
  return reordered(s, ListScheduler(s, priced.duration, in_turn).order(next_or_what_fits));
}

}  // namespace dovetail
