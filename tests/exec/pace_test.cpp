// SPDX-License-Identifier: Apache-2.0
#include "exec/host/pace.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;
using namespace dovetail::exec;

TEST_CASE("The usual pace is the lower quartile of the last 200 readings") {
  Seconds now(1);
  int readings = 0;
  Pace pace([&] {
    ++readings;
    return now;
  });
  CHECK(readings == 50);
  CHECK(pace.slowdown() == Approx(1));
  now = Seconds(2);
  for (int i = 0; i < 149; ++i) CHECK(pace.slowdown() == Approx(2));  // 51 of 200 readings are 1
  CHECK(pace.slowdown() == Approx(1));                                // 50 of 200: what lasts has become usual
  now = Seconds(.5);
  CHECK(pace.slowdown() == Approx(.25));
}

TEST_CASE("The reference product takes time") {
  ReferenceProduct product;
  CHECK(product() > Seconds(0));
}
