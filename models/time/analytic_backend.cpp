// SPDX-License-Identifier: Apache-2.0
#include "models/time/analytic_backend.hpp"

#include <algorithm>

#include "models/time/fair_sharing.hpp"
#include "models/time/mix_sharing.hpp"

namespace dovetail {
namespace {

// One pass in program order: an op starts when its stream and its dependencies are done, and the host has issued it.
// after(op, start, finish) is told of each. `launches`: whether they take time.
template <bool launches, class After>
Seconds sweep(const PricedSchedule& priced, std::vector<double>& finish, After after) {
  const Schedule& s = *priced.schedule;
  finish.resize(s.ops.size() + s.streams.size() + s.classes.size());
  double* const stream_free = finish.data() + s.ops.size();
  double* const host = stream_free + s.streams.size();
  std::fill_n(stream_free, s.streams.size() + s.classes.size(), 0.0);
  double makespan = 0;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    double start = stream_free[op.stream];
    for (std::int32_t d = op.dependencies.first; d < op.dependencies.last; ++d)
      start = std::max(start, finish[static_cast<std::size_t>(s.dependencies[static_cast<std::size_t>(d)])]);
    if constexpr (launches) start = std::max(start, host[s.class_of(op)] += priced.launch[i].value());
    const double end = start + priced.duration[i].value();
    finish[i] = stream_free[op.stream] = end;
    makespan = std::max(makespan, end);
    if constexpr (launches)
      if (std::holds_alternative<HostWait>(*op.work)) host[s.class_of(op)] = std::max(host[s.class_of(op)], end);
    after(i, start, end);
  }
  return Seconds(makespan);
}

template <class After>
Seconds sweep(const PricedSchedule& priced, std::vector<double>& finish, After after) {
  return priced.launch.empty() ? sweep<false>(priced, finish, after) : sweep<true>(priced, finish, after);
}

}  // namespace

Timeline AnalyticBackend::run(const PricedSchedule& priced) {
  Timeline timeline;
  timeline.kind = ResultKind::Predicted;
  timeline.ops.resize(priced.schedule->ops.size());
  if (priced.contended) return run_mixes(priced, &timeline.ops) ? timeline : run_sharing(priced);
  std::vector<double> finish;
  sweep(priced, finish, [&](OpId i, double start, double end) { timeline.ops[i] = {Seconds(start), Seconds(end)}; });
  return timeline;
}

Seconds analytic_makespan(const PricedSchedule& priced, std::vector<double>& finish) {
  if (priced.contended) {
    if (const std::optional<Seconds> makespan = run_mixes(priced, nullptr)) return *makespan;
    Seconds makespan;
    for (const Interval& op : run_sharing(priced).ops) makespan = std::max(makespan, op.finish);
    return makespan;
  }
  return sweep(priced, finish, [](OpId, double, double) {});
}

}  // namespace dovetail
