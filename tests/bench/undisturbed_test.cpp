// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/undisturbed.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace dovetail;
using namespace dovetail::bench;
using Json = nlohmann::ordered_json;

namespace {

// A machine that computes at the pace of `now`, and measurements that are numbered.
struct Machine {
  Seconds now{1};
  int waits = 0, measured = 0;
  std::function<void()> at_wait = [] {}, at_measurement = [] {};
  Undisturbed undisturbed{exec::Pace([this] { return now; }), [this] {
                            ++waits;
                            at_wait();
                          }};

  Json make() {
    Json made = undisturbed.make([this] {
      ++measured;
      at_measurement();
      return Json{{"number", measured}};
    });
    const JsonFile file = JsonFile::wrap(made, "v.journal");
    undisturbed.count(JsonReader(file));
    return made;
  }
};

}  // namespace

TEST_CASE("At the usual pace each measurement is made once") {
  Machine m;
  CHECK(m.make() == Json{{"number", 1}, {"slowdown", 1.0}, {"again", 0}});
  CHECK(m.waits == 0);
  CHECK(m.undisturbed.note() ==
        "a product of fixed size was timed before and after each of 1 measurements: 0 were made again because it took "
        "over 5 % longer than usual, 0 stayed so (0 % at worst)");
}

TEST_CASE("A measurement begins when the pace is as usual, and is made again if it is not at the end") {
  Machine m;
  m.now = Seconds(1.5);
  m.at_wait = [&] { m.now = Seconds(1); };
  m.at_measurement = [&] { m.now = Seconds(m.measured == 1 ? 1.2 : 1); };
  CHECK(m.make() == Json{{"number", 2}, {"slowdown", 1.0}, {"again", 1}});
  CHECK(m.waits == 2);  // before either
}

TEST_CASE("If a machine stays slow, the least disturbed of four measurements counts") {
  Machine m;
  const double slow[] = {1.5, 1.3, 1.4, 1.6};
  m.at_wait = [&] { m.now = Seconds(1); };
  m.at_measurement = [&] { m.now = Seconds(slow[m.measured - 1]); };
  CHECK(m.make() == Json{{"number", 2}, {"slowdown", 1.3}, {"again", 3}});
  CHECK(m.measured == 4);
  CHECK(m.undisturbed.note() ==
        "a product of fixed size was timed before and after each of 1 measurements: 1 were made again because it took "
        "over 5 % longer than usual, 1 stayed so (30 % at worst)");
}

TEST_CASE("A measurement waits no longer than 80 times") {
  Machine m;
  m.now = Seconds(1.5);
  CHECK(m.make().at("slowdown") == 1.5);
  CHECK(m.waits == 80);
  CHECK(m.measured == 4);
}
