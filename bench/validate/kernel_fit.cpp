// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/kernel_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "exec/run/measure.hpp"
#include "models/base/fit.hpp"
#include "models/base/names.hpp"

namespace dovetail::bench {
namespace {

Seconds first_demand(const PricedSchedule& priced, OpId op) {
  Seconds compute;
  priced.for_each_demand(op, [&](const Demand& d) {
    if (compute == Seconds(0)) compute = d.seconds;
  });
  return compute;
}

constexpr double most_company = .02;  // of an op's time: stamps are no finer

Seconds together(const Interval& a, const Interval& b) {
  return std::min(a.finish, b.finish) - std::max(a.start, b.start);
}

}  // namespace

IdVector<OpId, bool> ran_alone(const Schedule& schedule, const Timeline& timeline) {
  IdVector<OpId, bool> alone(timeline.ops.size(), true);
  for (const OpId i : timeline.ops.ids()) {
    const Interval& op = timeline.ops[i];
    const Seconds most = most_company * (op.finish - op.start);
    for (const OpId other : timeline.ops.ids())
      if (schedule.ops[other].stream != schedule.ops[i].stream && together(op, timeline.ops[other]) > most)
        alone[i] = false;
  }
  return alone;
}

void KernelFit::add_kernel(const PricedSchedule& priced, OpId i, Seconds time, bool alone, Bytes element) {
  const Op& op = priced.schedule->ops[i];
  auto of = std::ranges::find_if(kinds_, [&](const Kind& k) { return k.op == op.kind && k.phase == op.phase; });
  if (of == kinds_.end()) of = kinds_.insert(of, {op.kind, op.phase, {}, {}});
  std::vector<Size>& sizes = alone ? of->alone : of->beside;
  const WorkAmounts amounts = amounts_of(*priced.schedule, *op.kernel(), element);
  auto size = std::ranges::find(sizes, amounts, &Size::amounts);
  if (size == sizes.end()) size = sizes.insert(size, {amounts, first_demand(priced, i), {}});
  size->times.push_back(time);
}

void KernelFit::add(const PricedSchedule& priced, const OpWork& work, Bytes element) {
  const Schedule& s = *priced.schedule;
  for (const OpId i : s.ops.ids()) {
    if (work.held[i] || work.times[i] <= Seconds(0)) continue;
    if (s.ops[i].kernel() != nullptr) add_kernel(priced, i, work.times[i], work.alone[i], element);
    const auto* const copy = std::get_if<CopyWork>(&*s.ops[i].work);
    if (copy == nullptr) continue;
    std::vector<CopySize>& sizes = work.alone[i] ? copies_alone_ : copies_beside_;
    auto size = std::ranges::find(sizes, copy->bytes, &CopySize::bytes);
    if (size == sizes.end()) size = sizes.insert(size, {copy->bytes, {}});
    size->times.push_back(work.times[i]);
  }
}

KernelCost KernelFit::cost_of(const Kind& kind, CostForm form) {
  std::vector<TimedTerms> points;
  for (const Size& size : kind.sizes()) {
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
    quality.points.push_back({kind.sizes()[i].by_price.value(), points[i].time, fit.errors[i]});
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

std::optional<MemoryCost> KernelFit::copy(const std::string& source) const {
  std::vector<TimedTerms> points;
  for (const CopySize& size : copies()) points.push_back({{size.bytes.value(), 1}, exec::median(size.times)});
  if (points.empty()) return {};
  const TermsFit fit = fit_terms(points);
  MemoryCost cost;
  cost.beta = SecondsPerByte(fit.coefficients[0].value());
  cost.alpha = fit.coefficients[1];
  Fit quality;
  for (std::size_t i = 0; i < points.size(); ++i)
    quality.points.push_back({points[i].terms.front(), points[i].time, fit.errors[i]});
  cost.provenance.fit = std::make_shared<const Fit>(with_r2(std::move(quality)));
  cost.provenance.origin = Origin::Measured;
  cost.provenance.source = source;
  return cost;
}

std::vector<std::string> KernelFit::disturbed() const {
  std::vector<std::string> names;
  for (const Kind& kind : kinds_)
    if (kind.alone.empty())
      names.push_back(fmt::format("{} {}", name_in(op_kind_names, kind.op), name_in(phase_names, kind.phase)));
  if (copies_alone_.empty() && !copies_beside_.empty()) names.emplace_back("copies");
  return names;
}

}  // namespace dovetail::bench
