// SPDX-License-Identifier: Apache-2.0
// Times by what kernels do, each with its arithmetic.
#include "models/price/work_rates.hpp"

#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;

TEST_CASE("amounts are those of all kernels of an op") {
  Schedule s;
  s.kernels = {{gemm_shape(2, 3, 5), 1}, {experts_shape(4, 2, 8, 16, 4), 2}, {attention_shape(1, 6, 2, 2, 4), 2.5}};
  KernelWork work;
  work.kernels = {0, 3};
  work.memory_traffic = Bytes(100);
  work.gemm_traffic = Bytes(10);
  const WorkAmounts all = amounts_of(s, work, Bytes(4));
  CHECK(all.products.value() == 2 * 2 * 3 * 5 + 2 * (6 * 4 * 8 * 16));  // 60 + 6,144
  CHECK(all.attention.value() == Approx(2.5 * 2 * 6 * 6 * 2 * 4));
  CHECK(all.outputs.value() == 4 * (2 * 3 + 2 * 4 * (2 * 16 + 8)));  // gate, up and down write 16 + 16 + 8 a row
  CHECK(all.memory.value() == 110);
  work.row_share = .5;  // fewer rows arrive; attention sees all
  const WorkAmounts half = amounts_of(s, work, Bytes(4));
  CHECK(half.products.value() == Approx(.5 * all.products.value()));
  CHECK(half.outputs.value() == Approx(.5 * all.outputs.value()));
  CHECK(half.attention == all.attention);
}

TEST_CASE("a kind of op with rates of its own takes them and its alpha, whatever products cost elsewhere") {
  Experiment e = test::round_numbers();
  KernelCost cost;
  cost.op = OpKind::Expert;
  cost.phase = Phase::Forward;
  cost.alpha = Seconds(2e-3);
  cost.rates = WorkRates{SecondsPerFlop(1e-6), {}, SecondsPerByte(1e-3), {}};
  e.calibration.edit().kernels = {cost};
  const PricedSchedule p = price_plan(e, Plan{});
  bool found = false;
  for (const OpId i : p.schedule->ops.ids()) {
    const Op& op = p.schedule->ops[i];
    if (op.kind != OpKind::Expert || op.phase != Phase::Forward) continue;
    const WorkAmounts a = amounts_of(*p.schedule, *op.kernel(), size_of(e.workload.dtype));
    CHECK(a.products.value() > 0);
    CHECK(p.duration[i].value() == Approx(2e-3 + a.products.value() * 1e-6 + a.outputs.value() * 1e-3));
    found = true;
  }
  CHECK(found);
}
