// SPDX-License-Identifier: Apache-2.0
// Costs of kernels from times that were made up with known costs.
#include "bench/validate/kernel_fit.hpp"

#include <catch2/catch.hpp>
#include <functional>

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

// Times of the experts and of attention in one chunk and in two; all other ops count as held.
void add_made_up(const Experiment& e, KernelFit& fit,
                 const std::function<Seconds(const PricedSchedule& priced, OpId op)>& time_of) {
  for (int degree : {1, 2}) {
    const PricedSchedule p = priced(e, degree);
    const std::size_t ops = p.duration.size();
    OpWork work{IdVector<OpId, Seconds>(ops, Seconds(1)), IdVector<OpId, bool>(ops, true),
                IdVector<OpId, bool>(ops, true)};
    for (const OpId i : work.times.ids()) {
      const OpKind kind = p.schedule->ops[i].kind;
      work.held[i] = kind != OpKind::Expert && kind != OpKind::Attention;
      if (!work.held[i]) work.times[i] = time_of(p, i);
    }
    fit.add(p, work, size_of(e.workload.dtype));
  }
}

}  // namespace

TEST_CASE("A fit finds the costs that times were made with, and prices with them give the times") {
  Experiment e = round_numbers(1);
  const CostForm form = GENERATE(CostForm::ByPrice, CostForm::ByWork);
  CAPTURE(static_cast<int>(form));
  KernelFit fit(form);
  const auto time_of = [](const PricedSchedule& p, OpId i) {  // 3 times the modelled work
    return 3 * p.demands_of(PricedSchedule::only_activity(i)).front().seconds;
  };
  add_made_up(e, fit, time_of);
  const PricedSchedule without = priced(e, 4);
  e.calibration.edit().kernels = fit.costs("made up");
  CHECK(e.calibration->kernels.size() == 4);  // two kinds, two passes
  const PricedSchedule with = priced(e, 4);
  for (const OpId i : with.duration.ids())
    if (with.schedule->ops[i].kind == OpKind::Expert || with.schedule->ops[i].kind == OpKind::Attention)
      CHECK(with.duration[i].value() == Approx(time_of(without, i).value()));
    else
      CHECK(with.duration[i] == without.duration[i]);
}

TEST_CASE("Costs by work have rates, costs by price a factor, a kind of one size has one coefficient") {
  const Experiment e = round_numbers(1);
  KernelFit by_work(CostForm::ByWork), by_price(CostForm::ByPrice);
  for (KernelFit* fit : {&by_work, &by_price})
    add_made_up(e, *fit, [](const PricedSchedule&, OpId) { return Seconds(2e-3); });
  for (const KernelCost& cost : by_work.costs("made up")) {
    REQUIRE(cost.rates);
    // Experts of two sizes take as long; attention of one size takes as long for all that is known.
    CHECK(cost.alpha.value() == Approx(cost.op == OpKind::Expert ? 2e-3 : 0));
    CHECK((cost.rates->products > SecondsPerFlop(0)) == (cost.op == OpKind::Attention));
  }
  for (const KernelCost& cost : by_price.costs("made up")) {
    CHECK(!cost.rates);
    CHECK(cost.provenance.origin == Origin::Measured);
    REQUIRE(cost.provenance.fit != nullptr);
    CHECK(worst_error(*cost.provenance.fit) < 1e-9);
  }
}

TEST_CASE("Of several times of one size the median counts") {
  const Experiment e = round_numbers(1);
  KernelFit fit(CostForm::ByPrice);
  for (const double milliseconds : {2.0, 50.0, 2.0})
    add_made_up(e, fit, [&](const PricedSchedule&, OpId) { return Seconds(1e-3 * milliseconds); });
  for (const KernelCost& cost : fit.costs("made up"))
    if (cost.op == OpKind::Expert) CHECK(cost.alpha.value() == Approx(2e-3));
}

TEST_CASE("Ops count as alone where no other stream is at work for more than 2 % of their time") {
  Schedule s;
  s.streams.resize(2);
  for (const int stream : {0, 1, 0, 1}) {
    Op op;
    op.stream = StreamId(stream);
    s.ops.push_back(op);
  }
  Timeline timeline;
  timeline.ops = {
      {Seconds(0), Seconds(1)}, {Seconds(.99), Seconds(2)}, {Seconds(2), Seconds(4)}, {Seconds(3), Seconds(4)}};
  const IdVector<OpId, bool> alone = ran_alone(s, timeline);
  CHECK(alone == IdVector<OpId, bool>{true, true, false, false});  // 1 % of the first two, half of the third
}

TEST_CASE("Of a kind that ever ran alone no other times count, otherwise it is named") {
  const Experiment e = round_numbers(1);
  const PricedSchedule p = priced(e, 1);
  const std::size_t ops = p.duration.size();
  KernelFit fit(CostForm::ByPrice);
  for (const bool alone : {true, false}) {
    OpWork work{IdVector<OpId, Seconds>(ops, Seconds(alone ? 2e-3 : 4e-3)), IdVector<OpId, bool>(ops, true),
                IdVector<OpId, bool>(ops, alone)};
    for (const OpId i : work.times.ids()) {
      const OpKind kind = p.schedule->ops[i].kind;
      work.held[i] = kind != OpKind::Expert && (alone || kind != OpKind::Gate);
    }
    fit.add(p, work, size_of(e.workload.dtype));
  }
  CHECK(fit.disturbed() == std::vector<std::string>{"gate forward", "gate backward"});
  for (const KernelCost& cost : fit.costs("made up"))
    CHECK(cost.provenance.fit->points.front().time == Seconds(cost.op == OpKind::Expert ? 2e-3 : 4e-3));
}

TEST_CASE("Copies to and from the host have one cost by their bytes, held ones have none") {
  Experiment e = round_numbers(1);
  e.calibration.edit().copy = MemoryCost{Seconds(0), SecondsPerByte(1), {}};
  Plan plan;
  plan.scope = Scope::Moe;
  plan.restore = Restore::S1;
  KernelFit fit(CostForm::ByPrice);
  CHECK_FALSE(fit.copy("made up"));
  PricedSchedule p = price_plan(e, plan);
  Schedule schedule = *p.schedule;
  const std::size_t ops = p.duration.size();
  OpWork work{IdVector<OpId, Seconds>(ops, Seconds(1)), IdVector<OpId, bool>(ops, true),
              IdVector<OpId, bool>(ops, true)};
  double kilobytes = 0;
  for (const OpId i : work.times.ids())
    if (auto* copy = std::get_if<CopyWork>(&schedule.ops[i].work.edit())) {
      copy->bytes = Bytes(1e3 * ++kilobytes);
      work.held[i] = false;
      work.times[i] = Seconds(1e-5) + copy->bytes * SecondsPerByte(2e-8);
    }
  REQUIRE(kilobytes >= 4);  // two terms need as many sizes
  p.schedule = std::make_shared<const Schedule>(schedule);
  fit.add(p, work, size_of(e.workload.dtype));
  const std::optional<MemoryCost> copy = fit.copy("made up");
  REQUIRE(copy);
  CHECK(copy->alpha.value() == Approx(1e-5));
  CHECK(copy->beta.value() == Approx(2e-8));
  CHECK(fit.costs("made up").empty());
}
