#include "models/time/analytic_backend.hpp"

#include <algorithm>

#include "models/time/fair_sharing.hpp"
#include "models/time/mix_sharing.hpp"

namespace dovetail {
namespace {

// One pass in program order: an op starts when its stream and its dependencies are done.
// after(op, start, finish) is told of each.
template <class After>
Seconds sweep(const PricedSchedule& priced, std::vector<double>& finish, After after) {
  const Schedule& s = *priced.schedule;
  finish.resize(s.ops.size() + s.streams.size());
  double* const stream_free = finish.data() + s.ops.size();
  std::fill_n(stream_free, s.streams.size(), 0.0);
  double makespan = 0;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    double start = stream_free[op.stream];
    for (std::int32_t d = op.dependencies.first; d < op.dependencies.last; ++d)
      start = std::max(start, finish[static_cast<std::size_t>(s.dependencies[static_cast<std::size_t>(d)])]);
    const double end = start + priced.duration[i].value();
    finish[i] = stream_free[op.stream] = end;
    makespan = std::max(makespan, end);
    after(i, start, end);
  }
  return Seconds(makespan);
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
