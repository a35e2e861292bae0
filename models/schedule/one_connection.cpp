// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/one_connection.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace dovetail {
namespace {

// By stream, the latest op that must have ended; none: nothing need.
using Ended = IdVector<StreamId, OpId>;

void raise(OpId& latest, OpId op) {
  if (latest < op) latest = op;
}

class OneQueue {
 public:
  explicit OneQueue(Schedule& s)
      : s_(s),
        begun_(s.classes.size(), Ended(s.streams.size())),
        known_(s.streams.size(), Ended(s.streams.size())),
        last_(s.streams.size()) {}

  void run() {
    std::vector<OpId> dependencies;
    for (const OpId id : s_.ops.ids()) {
      Op& op = s_.ops[id];
      const auto first = static_cast<std::int32_t>(dependencies.size());
      for (const OpId before : s_.dependencies_of(op)) dependencies.push_back(before);
      if (!std::holds_alternative<HostWait>(*op.work)) begin(id, dependencies, static_cast<std::size_t>(first));
      last_[op.stream] = id;
      op.dependencies = {first, static_cast<std::int32_t>(dependencies.size())};
    }
    s_.dependencies = std::move(dependencies);
  }

 private:
  void begin(OpId id, std::vector<OpId>& dependencies, std::size_t first) {
    const Op& op = s_.ops[id];
    const auto rank_class = static_cast<std::size_t>(s_.class_of(op));
    Ended &begun = begun_[rank_class], &known = known_[op.stream];
    const std::size_t own = dependencies.size();
    for (std::size_t i = first; i < own; ++i) wait_for(dependencies[i], rank_class, known, begun);
    if (last_[op.stream].exists()) wait_for(last_[op.stream], rank_class, known, begun);
    for (const StreamId stream : s_.streams.ids())
      if (known[stream] < begun[stream]) dependencies.push_back(known[stream] = begun[stream]);
  }

  // The op that begins, and all that come after it in the queue, do so when `before` has ended.
  void wait_for(OpId before, std::size_t rank_class, Ended& known, Ended& begun) const {
    const Op& op = s_.ops[before];
    if (static_cast<std::size_t>(s_.class_of(op)) != rank_class) return;
    raise(known[op.stream], before);
    raise(begun[op.stream], before);
  }

  Schedule& s_;
  std::vector<Ended> begun_;         // by rank class: what its latest op has waited for
  IdVector<StreamId, Ended> known_;  // by stream: what its latest op has waited for
  IdVector<StreamId, OpId> last_;
};

}  // namespace

void take_from_one_queue(Schedule& schedule) {
  OneQueue(schedule).run();
}

}  // namespace dovetail
