// SPDX-License-Identifier: Apache-2.0
// Failures that an experiment injects, with the arithmetic.
#include "models/price/speed_events.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/time/analytic_backend.hpp"
#include "tests/support/hand_made.hpp"

using namespace dovetail;
using namespace dovetail::test;

TEST_CASE("events become changes of speed, those that overlap multiply") {
  HandMade made(1, 2);  // resources r0, r1
  made.add(0, {}, 0, {use(0, 4)});
  PricedSchedule p = made.priced();
  CHECK_FALSE(p.contended);
  inject(std::vector<SpeedEvent>{{Seconds(1), Seconds(5), "r0", .5}, {Seconds(3), {}, "r0", .5}}, p);
  REQUIRE(p.speed_changes.size() == 3);
  CHECK(p.speed_changes[0].at == Seconds(1));
  CHECK(p.speed_changes[0].speed == .5);
  CHECK(p.speed_changes[1].at == Seconds(3));
  CHECK(p.speed_changes[1].speed == .25);
  CHECK(p.speed_changes[2].at == Seconds(5));
  CHECK(p.speed_changes[2].speed == .5);
  CHECK(p.contended);
  // 1 s of the 4 until 1, 1 until 3, half until 5; 1.5 at half speed: 8.
  CHECK(AnalyticBackend().run(p).ops[0].finish.value() == Approx(8).epsilon(1e-12));
}

TEST_CASE("an event names a resource, or those of all classes") {
  HandMade made(1, 3);
  PricedSchedule p = made.priced();
  p.resources = {"compute#0", "compute#1", "inter"};
  inject(std::vector<SpeedEvent>{{Seconds(1), {}, "compute", .5}}, p);
  REQUIRE(p.speed_changes.size() == 2);
  CHECK(p.speed_changes[1].resource == 1);
  CHECK_THROWS_WITH(inject(std::vector<SpeedEvent>{{Seconds(1), {}, "nic", .5}}, p),
                    Catch::Contains("resource \"nic\", expected one of compute#0, compute#1, inter"));
}
