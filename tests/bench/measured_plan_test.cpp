// SPDX-License-Identifier: Apache-2.0
// A journal may be damaged: no value of it is taken as it comes.
#include "bench/validate/measured_plan.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Contains;

namespace {

constexpr auto good = R"({"sample": 2, "emulated_share": 0.5, "overruns": 3,
  "bound": 1.5, "peak_bytes": 100, "allocated_bytes": 0, "numerics_ok": true, "ops": [
  {"op": "gate", "phase": "forward", "emulated": true, "measured_s": 1},
  {"op": "expert", "phase": "backward", "emulated": false, "measured_s": 4}]})";

PlanOutcome expected() {
  PlanOutcome outcome;
  outcome.ops = {{OpKind::Gate, Phase::Forward, false, Seconds(1), {}},
                 {OpKind::Expert, Phase::Backward, false, Seconds(3), {}}};
  return outcome;
}

void add(const nlohmann::json& json, PlanOutcome& outcome) {
  const JsonFile file = JsonFile::wrap(json, "v.journal");
  add_measured(JsonReader(file), outcome);
}

}  // namespace

TEST_CASE("Rounds are averaged, overruns summed, the largest peak stays") {
  PlanOutcome outcome = expected();
  const nlohmann::json first = nlohmann::json::parse(good);
  nlohmann::json second = first;
  second["ops"][1]["measured_s"] = 2;
  second["numerics_ok"] = nullptr;
  second["bound"] = 2.5;
  second["peak_bytes"] = 90;
  add(first, outcome);
  add(second, outcome);
  finish_measured(outcome, 1);
  CHECK(outcome.median == Seconds(2));
  CHECK(outcome.bound == Seconds(2));  // (1.5 + 2.5) / 2
  CHECK(outcome.memory.measured_peak == Bytes(100));
  CHECK(outcome.samples == std::vector<Seconds>{Seconds(2), Seconds(2)});
  CHECK(outcome.emulated_share == .5);
  CHECK(outcome.overruns == 6);
  CHECK(outcome.numerics_ok == true);
  CHECK(outcome.ops[0].emulated);
  CHECK(outcome.ops[1].measured == Seconds(3));  // (4 + 2) / 2
}

TEST_CASE("A measurement that cannot be is refused at its place") {
  const auto refused = [](const std::string& pointer, const nlohmann::json& value, const std::string& message) {
    nlohmann::json json = nlohmann::json::parse(good);
    json[nlohmann::json::json_pointer(pointer)] = value;
    PlanOutcome outcome = expected();
    CHECK_THROWS_WITH(add(json, outcome), Contains(message));
  };
  refused("/sample", 0, "/sample");
  refused("/sample", nullptr, "/sample");
  refused("/emulated_share", 2, "/emulated_share");
  refused("/overruns", -1, "/overruns");
  refused("/bound", -1, "/bound");
  refused("/peak_bytes", "much", "/peak_bytes");
  refused("/numerics_ok", 1, "/numerics_ok");
  refused("/ops", nlohmann::json::array(), "/ops: 0 kinds of ops, expected the 2 of this plan");
  refused("/ops/0/op", 99, "/ops/0/op");
  refused("/ops/0/op", "expert", "/ops/0: expected gate, forward");
  refused("/ops/1/phase", "forward", "/ops/1: expected expert, backward");
  refused("/ops/1/measured_s", -1, "/ops/1/measured_s");
  refused("/ops/1/emulated", "no", "/ops/1/emulated");
}
