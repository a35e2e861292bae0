#include <catch2/catch.hpp>

#include "exec/device/deferred/deferred_device.hpp"
#include "tests/exec_device/device_numerics.hpp"
#include "tests/support/random_plans.hpp"
#include <cstdio>
using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("Random plans compute in random orders what the reference does") {
  Random random(31);
  int bad = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    const auto device = make_deferred_device({i, true, false});
    check_on_device(*device, e, plan, {Stored::Double, true, i % 2 == 0, i});
    for (const auto& race : device->races()) { if (++bad < 20) UNSCOPED_INFO(to_string(race)); }
    CHECK(device->races().empty());
  }
}
