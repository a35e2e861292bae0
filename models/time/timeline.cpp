// SPDX-License-Identifier: Apache-2.0
#include "models/time/timeline.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/time/merged_lists.hpp"

namespace dovetail {
namespace {

StreamKind stream_kind(const Schedule& s, const Op& op) {
  return s.streams[op.stream].kind;
}

// Times on the ranks of a class: computation runs, communication beside it or without it, or neither runs.
struct Shares {
  Seconds computation, hidden, exposed, waiting;
};

// The starts and ends of computation or communication on a stream, which come in the order of time.
struct Change {
  double at;
  int compute, communication;
  friend bool operator<(const Change& a, const Change& b) { return a.at < b.at; }
};
IdVector<StreamId, std::vector<Change>> changes_of_streams(const Schedule& s, const Timeline& timeline) {
  IdVector<StreamId, std::vector<Change>> changes(s.streams.size());
  IdVector<StreamId, std::size_t> ops(s.streams.size());
  for (const Op& op : s.ops) ++ops[op.stream];
  for (const StreamId stream : s.streams.ids()) changes[stream].reserve(2 * ops[stream]);
  for (const OpId i : s.ops.ids()) {
    const StreamKind kind = stream_kind(s, s.ops[i]);
    if (kind == StreamKind::Copy) continue;
    const int c = kind == StreamKind::Compute ? 1 : 0;
    changes[s.ops[i].stream].push_back({timeline.ops[i].start.value(), c, 1 - c});
    changes[s.ops[i].stream].push_back({timeline.ops[i].finish.value(), -c, c - 1});
  }
  for (std::vector<Change>& of_stream : changes)
    if (!std::ranges::is_sorted(of_stream, std::less())) std::ranges::sort(of_stream, std::less());
  return changes;
}

// A sweep over those of a class.
Shares shares_of(std::vector<std::span<const Change>> changes, Seconds makespan) {
  const Change end{makespan.value(), 0, 0};
  changes.emplace_back(&end, 1);
  Shares shares;
  double last = 0;
  int compute = 0, communication = 0;
  visit_in_order(std::move(changes), [&](const Change& change) {
    const Seconds span(change.at - last);
    if (compute > 0) shares.computation += span;
    if (communication > 0) (compute > 0 ? shares.hidden : shares.exposed) += span;
    if (compute == 0 && communication == 0) shares.waiting += span;
    compute += change.compute;
    communication += change.communication;
    last = change.at;
  });
  return shares;
}

}  // namespace

Metrics metrics(const Schedule& s, const Timeline& timeline) {
  check(timeline.ops.size() == s.ops.size(), "timeline of another schedule");
  Metrics m;
  for (const Stream& stream : s.streams)
    m.streams.push_back({stream.rank_class, std::string(name_in(stream_kind_names, stream.kind)), Seconds(0)});
  for (const OpId i : s.ops.ids()) {
    const auto [start, finish] = timeline.ops[i];
    m.makespan = std::max(m.makespan, finish);
    if (s.ops[i].pass() == Phase::Forward) m.forward = std::max(m.forward, finish);
    m.streams[s.ops[i].stream].busy += finish - start;
  }
  m.backward = m.makespan - m.forward;
  double ranks = 0;
  for (const RankClass& c : s.classes) ranks += c.ranks;
  const IdVector<StreamId, std::vector<Change>> changes = changes_of_streams(s, timeline);
  std::vector<std::vector<std::span<const Change>>> of_classes(s.classes.size());
  for (const StreamId stream : s.streams.ids())
    of_classes[static_cast<std::size_t>(s.streams[stream].rank_class)].emplace_back(changes[stream]);
  for (std::size_t c = 0; c < of_classes.size(); ++c) {
    const Shares shares = shares_of(std::move(of_classes[c]), m.makespan);
    const double part = s.classes[c].ranks / ranks;
    m.computation += shares.computation * part;
    m.exposed_communication += shares.exposed * part;
    m.waiting += shares.waiting * part;
    m.hidden += shares.hidden * part;
  }
  return m;
}

Seconds launch_bound(const Schedule& s, const Timeline& timeline) {
  return launch_bound(s, timeline, Seconds(0), Seconds(std::numeric_limits<double>::infinity()));
}

Seconds launch_bound(const Schedule& s, const Timeline& timeline, Seconds from, Seconds to) {
  IdVector<OpId, OpId> last(s.ops.size());  // of those that an op waits for, the one that ended last
  s.for_each_edge([&](OpId before, OpId op) {
    if (!last[op].exists() || timeline.ops[before].finish > timeline.ops[last[op]].finish) last[op] = before;
  });
  OpId op;
  for (const OpId i : timeline.ops.ids())
    if (!op.exists() || timeline.ops[i].finish > timeline.ops[op].finish) op = i;
  Seconds sum;
  for (; op.exists(); op = last[op]) {
    const Seconds ready = last[op].exists() ? timeline.ops[last[op]].finish : Seconds(0);
    sum += std::max(std::min(timeline.ops[op].start, to) - std::max(ready, from), Seconds(0));
  }
  return sum;
}

Seconds plan_bound(const PricedSchedule& priced) {
  const Schedule& s = *priced.schedule;
  std::vector<double> chain(s.ops.size()), busy(s.streams.size()), host(s.classes.size());
  double bound = 0;
  for (const OpId i : s.ops.ids()) {
    const double duration = priced.duration[i].value();
    double& load = busy[static_cast<std::size_t>(s.ops[i].stream)];
    load += duration;
    if (!priced.launch.empty())
      chain[i] = host[static_cast<std::size_t>(s.class_of(s.ops[i]))] += priced.launch[i].value();
    for (OpId before : s.dependencies_of(s.ops[i]))
      chain[i] = std::max(chain[i], chain[static_cast<std::size_t>(before)]);
    chain[i] += duration;
    bound = std::max({bound, load, chain[i]});
  }
  return Seconds(bound);
}

Seconds lower_bound(const PricedSchedule& priced) {
  std::vector<double> busy(priced.resources.size());
  for (std::size_t a = 0; a < priced.activity_count(); ++a)
    for (const Demand& demand : priced.demands_of(ActivityId(a)))
      busy[static_cast<std::size_t>(demand.resource)] += demand.seconds.value();
  return Seconds(*std::max_element(busy.begin(), busy.begin() + static_cast<std::ptrdiff_t>(priced.physical)));
}

}  // namespace dovetail
