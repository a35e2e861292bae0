// SPDX-License-Identifier: Apache-2.0
#include "models/price/ready_first.hpp"

#include <catch2/catch.hpp>

#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;

TEST_CASE("a free stream takes the oldest op that is ready, dependencies keep pointing backwards") {
  test::HandMade made(2, 0);  // stream 0 computes
  const OpId slow = made.add(0, {}, 5, {});
  made.add(1, {slow}, 1, {});             // 1: ready at 5
  const OpId b = made.add(1, {}, 2, {});  // 2: ready at 0
  made.add(1, {b}, 2, {});                // 3: ready at 2
  made.add(1, {}, 3, {});                 // 4: ready at 0, but younger than 2
  PricedSchedule priced = made.priced();
  Schedule streams = *priced.schedule;
  streams.streams[1].kind = StreamKind::Communication;
  for (const OpId i : streams.ops.ids()) streams.ops[i].layer = static_cast<std::int16_t>(i);
  priced.schedule = std::make_shared<const Schedule>(streams);
  const Schedule s = ready_first(priced);
  std::vector<int> order;
  for (const OpId i : s.ops.ids()) {
    order.push_back(s.ops[i].layer);
    for (OpId before : s.dependencies_of(s.ops[i])) CHECK(before < static_cast<OpId>(i));
  }
  // Stream 1: 2 until 2, then 3 (older than 4) until 4, then 4 until 7 since 1 is not ready before 5, then 1.
  CHECK(order == std::vector<int>{0, 2, 3, 4, 1});
}

TEST_CASE(
    "ready_first follows the costs: as dispatch_first where experts are slow, in turns where chunks come back soon") {
  Experiment e = test::round_numbers();
  e.workload.phases = Phases::ForwardOnly;
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  e.calibration.edit().gemms[0].alpha = Seconds(0);
  const auto program = [&](double expert) {
    e.calibration.edit().gemms[0].beta = SecondsPerFlop(expert);
    Plan p;
    p.scope = Scope::Moe;
    p.forward_degree = 4;
    p.order = Order::ReadyFirst;
    const Schedule s = build_schedule(e, p);
    validate(s);
    std::string text;
    for (const Op& op : s.ops)
      if (op.collective() != Collective::None) text += to_string(op) + " ";
    return text;
  };
  CHECK(program(1e-3) ==
        "dispatch[0].0 dispatch[0].1 dispatch[0].2 dispatch[0].3 "
        "combine[0].0 combine[0].1 combine[0].2 combine[0].3 ");
  CHECK(program(0) ==
        "dispatch[0].0 dispatch[0].1 combine[0].0 dispatch[0].2 combine[0].1 dispatch[0].3 "
        "combine[0].2 combine[0].3 ");
}
