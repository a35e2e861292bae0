// Costs of kernels from times that were made up with known costs.
#include "bench/validate/kernel_fit.hpp"

#include <catch2/catch.hpp>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using namespace dovetail::test;

namespace {

PricedSchedule priced(const Experiment& e, int degree) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = degree;
  return price_plan(e, plan);
}

}  // namespace

TEST_CASE("A fit finds the costs that times were made with, and prices with them give the times") {
  Experiment e = round_numbers(1);
  KernelFit fit;
  const auto time_of = [](const PricedSchedule& p, OpId i) {  // 2 ms + 3 times the modelled work
    return Seconds(2e-3) + 3 * p.demands_of(PricedSchedule::only_activity(i)).front().seconds;
  };
  for (int degree : {1, 2}) {
    const PricedSchedule p = priced(e, degree);
    IdVector<OpId, Seconds> work(p.duration.size(), Seconds(1));
    IdVector<OpId, bool> held(p.duration.size(), true);
    for (const OpId i : work.ids()) {
      const OpKind kind = p.schedule->ops[i].kind;
      held[i] = kind != OpKind::Expert && kind != OpKind::Attention;
      if (!held[i]) work[i] = time_of(p, i);
    }
    fit.add(p, work, held);
  }
  e.calibration.edit().kernels = fit.costs("made up");
  CHECK(e.calibration->kernels.size() == 4);  // two kinds, two passes
  const KernelCost* expert = find_kernel(*e.calibration, OpKind::Expert, Phase::Backward);
  REQUIRE(expert != nullptr);
  CHECK(expert->alpha.value() == Approx(2e-3));
  CHECK(expert->factor == Approx(3));
  // Attention has one size: all of its time is put on the factor, 3 + 2 ms / work.
  const KernelCost* attention = find_kernel(*e.calibration, OpKind::Attention, Phase::Forward);
  REQUIRE(attention != nullptr);
  CHECK(attention->alpha == Seconds(0));
  e.calibration.edit().kernels.clear();
  const PricedSchedule without = priced(e, 4);
  e.calibration.edit().kernels = fit.costs("made up");
  const PricedSchedule with = priced(e, 4);
  for (const OpId i : with.duration.ids())
    if (with.schedule->ops[i].kind == OpKind::Expert)
      CHECK(with.duration[i].value() == Approx(time_of(without, i).value()));
    else if (with.schedule->ops[i].kind != OpKind::Attention)
      CHECK(with.duration[i] == without.duration[i]);
}
