#include "bench/validate/kernel_fit.hpp"

#include <algorithm>
#include <set>

#include "exec/run/measure.hpp"

namespace dovetail::bench {
namespace {

KernelCost cost_of(OpKind op, Phase phase, const std::vector<TimedSize>& points) {
  KernelCost cost{op, phase, Seconds(0), 1, {}};
  std::set<double> sizes;
  std::vector<Seconds> times;
  for (const TimedSize& point : points) {
    sizes.insert(point.size);
    times.push_back(point.time);
  }
  if (sizes.size() > 1) {
    const LineFit fit = fit_line(points);
    cost.alpha = fit.alpha;
    cost.factor = fit.beta.value();
    cost.provenance.fit = std::make_shared<const Fit>(fit.quality);
  } else if (*sizes.begin() > 0) {
    cost.factor = exec::median(times).value() / *sizes.begin();
  } else {
    cost.alpha = exec::median(times);
  }
  return cost;
}

}  // namespace

void KernelFit::add(const PricedSchedule& priced, const IdVector<OpId, Seconds>& work,
                    const IdVector<OpId, bool>& held) {
  const Schedule& s = *priced.schedule;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    const bool computes = s.streams[op.stream].kind == StreamKind::Compute;
    if (!computes || held[i] || work[i] <= Seconds(0)) continue;
    auto of = std::ranges::find_if(kinds_, [&](const Points& p) { return p.op == op.kind && p.phase == op.phase; });
    if (of == kinds_.end()) of = kinds_.insert(of, {op.kind, op.phase, {}});
    Seconds compute;  // the first demand
    priced.for_each_demand(i, [&](const Demand& d) {
      if (compute == Seconds(0)) compute = d.seconds;
    });
    of->points.push_back({compute.value(), work[i]});
  }
}

std::vector<KernelCost> KernelFit::costs(const std::string& source) const {
  std::vector<KernelCost> costs;
  for (const Points& kind : kinds_) {
    costs.push_back(cost_of(kind.op, kind.phase, kind.points));
    costs.back().provenance.origin = Origin::Measured;
    costs.back().provenance.source = source;
  }
  return costs;
}

}  // namespace dovetail::bench
