#include "bench/validate/kernel_fit.hpp"

#include <algorithm>

#include "exec/run/measure.hpp"
#include "models/base/fit.hpp"

namespace dovetail::bench {
namespace {

Seconds first_demand(const PricedSchedule& priced, OpId op) {
  Seconds compute;
  priced.for_each_demand(op, [&](const Demand& d) {
    if (compute == Seconds(0)) compute = d.seconds;
  });
  return compute;
}

}  // namespace

void KernelFit::add(const PricedSchedule& priced, const IdVector<OpId, Seconds>& work, const IdVector<OpId, bool>& held,
                    Bytes element) {
  const Schedule& s = *priced.schedule;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    if (op.kernel() == nullptr || held[i] || work[i] <= Seconds(0)) continue;
    auto of = std::ranges::find_if(kinds_, [&](const Kind& k) { return k.op == op.kind && k.phase == op.phase; });
    if (of == kinds_.end()) of = kinds_.insert(of, {op.kind, op.phase, {}});
    const WorkAmounts amounts = amounts_of(s, *op.kernel(), element);
    auto size = std::ranges::find(of->sizes, amounts, &Size::amounts);
    if (size == of->sizes.end()) size = of->sizes.insert(size, {amounts, first_demand(priced, i), {}});
    size->times.push_back(work[i]);
  }
}

KernelCost KernelFit::cost_of(const Kind& kind, CostForm form) {
  std::vector<TimedTerms> points;
  for (const Size& size : kind.sizes) {
    const WorkAmounts& a = size.amounts;
    TimedTerms& point = points.emplace_back(TimedTerms{{}, exec::median(size.times)});
    if (form == CostForm::ByPrice)
      point.terms = {size.by_price.value(), 1};
    else
      point.terms = {a.products.value(), a.attention.value(), a.outputs.value(), a.memory.value(), 1};
  }
  const TermsFit fit = fit_terms(points);
  const std::vector<Seconds>& x = fit.coefficients;
  KernelCost cost;
  cost.op = kind.op;
  cost.phase = kind.phase;
  cost.alpha = x.back();
  if (form == CostForm::ByPrice)
    cost.factor = x[0].value();
  else
    cost.rates = WorkRates{SecondsPerFlop(x[0].value()), SecondsPerFlop(x[1].value()), SecondsPerByte(x[2].value()),
                           SecondsPerByte(x[3].value())};
  Fit quality;
  for (std::size_t i = 0; i < points.size(); ++i)
    quality.points.push_back({kind.sizes[i].by_price.value(), points[i].time, fit.errors[i]});
  cost.provenance.fit = std::make_shared<const Fit>(with_r2(std::move(quality)));
  return cost;
}

std::vector<KernelCost> KernelFit::costs(const std::string& source) const {
  std::vector<KernelCost> costs;
  for (const Kind& kind : kinds_) {
    costs.push_back(cost_of(kind, form_));
    costs.back().provenance.origin = Origin::Measured;
    costs.back().provenance.source = source;
  }
  return costs;
}

}  // namespace dovetail::bench
