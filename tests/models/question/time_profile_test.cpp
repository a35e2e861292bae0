// SPDX-License-Identifier: Apache-2.0
#include "models/question/time_profile.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/files/read_schedule.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/experiment_rules.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

constexpr double us = 1e-6;

TimeCurve measured() {
  return {{{10, Seconds(5 * us)}, {20, Seconds(7 * us)}, {40, Seconds(17 * us)}}, /*fitted=*/false};
}

Experiment profiled(Phases phases = Phases::Training) {
  Experiment e = test::round_numbers();  // C = 4 rows from each of 4 ranks for 2 experts here: 32 rows
  e.model.expert_profile = {TimeCurve::fit(Seconds(100 * us), Seconds(2 * us)), measured(), {}};
  e.model.gate_profile.forward = measured();  // 8 tokens a rank
  e.model.gate_profile.backward = TimeCurve::fit(Seconds(3 * us), Seconds(1 * us));
  e.workload.phases = phases;
  return e;
}

PricedSchedule priced(const Experiment& e, int degree = 1) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = degree;
  return price_plan(e, plan);
}

std::vector<double> microseconds(const PricedSchedule& p, OpKind kind, Phase phase) {
  std::vector<double> times;
  for (const OpId i : p.schedule->ops.ids())
    if (p.schedule->ops[i].kind == kind && p.schedule->ops[i].phase == phase)
      times.push_back(p.duration[i].value() / us);
  return times;
}

}  // namespace

TEST_CASE("A profile is straight lines through its points, and the last ones beyond") {
  const TimeCurve curve = measured();
  const auto time = [&](double size) { return (curve.at(size).fixed + curve.at(size).growing).value() / us; };
  CHECK(time(10) == Approx(5));
  CHECK(time(15) == Approx(6));
  CHECK(time(20) == Approx(7));
  CHECK(time(30) == Approx(12));
  CHECK(time(50) == Approx(22));
  CHECK(time(0) == Approx(3));
  CHECK(curve.at(15).fixed.value() / us == Approx(3));  // 5 - 10 * .2
  CHECK(curve.at(30).fixed.value() == 0);               // 7 - 20 * .5 is below 0
  CHECK(curve.measured_at(10));
  CHECK_FALSE(curve.measured_at(9));
  CHECK_FALSE(curve.measured_at(41));
  const TimeCurve fit = TimeCurve::fit(Seconds(1 * us), Seconds(2 * us));
  CHECK(fit.at(7).fixed.value() / us == Approx(1));
  CHECK(fit.at(7).growing.value() / us == Approx(14));
  CHECK(fit.measured_at(1e9));
}

TEST_CASE("A profiled expert or gate takes its measured time instead of a modelled one") {
  const PricedSchedule p = priced(profiled());
  CHECK_THAT(microseconds(p, OpKind::Expert, Phase::Forward), Catch::Approx(std::vector<double>{100 + 32 * 2}));
  CHECK_THAT(microseconds(p, OpKind::Expert, Phase::Backward), Catch::Approx(std::vector<double>{13}));  // 7 + 12 * .5
  CHECK_THAT(microseconds(p, OpKind::Gate, Phase::Forward), Catch::Approx(std::vector<double>{4.6}));    // 5 - 2 * .2
  CHECK_THAT(microseconds(p, OpKind::Gate, Phase::Backward), Catch::Approx(std::vector<double>{11}));
  const PricedSchedule halves = priced(profiled(), 2);
  CHECK_THAT(microseconds(halves, OpKind::Expert, Phase::Forward),
             Catch::Approx(std::vector<double>{100 + 16 * 2, 100 + 16 * 2}));
}

TEST_CASE("What lies outside of the measured range is noted") {
  const Experiment e = profiled();
  CHECK(extrapolated_profiles(*priced(e).schedule, e.model) ==
        std::vector<std::string>{
            "round: gate_profile was measured from 10 to 40; the forward time at 8 is extrapolated"});
  CHECK(extrapolated_profiles(*priced(test::round_numbers()).schedule, test::round_numbers().model).empty());
}

TEST_CASE("Training needs backward times") {
  Experiment e = profiled();
  e.model.gate_profile.backward = {};
  CHECK_THROWS_WITH(validate(e), Contains("/model/gate_profile: no backward times, which training needs"));
  e.workload.phases = Phases::ForwardOnly;
  CHECK_NOTHROW(validate(e));
}

TEST_CASE("A schedule file keeps profiles") {
  const Experiment e = profiled();
  const ScheduleFile file{e, Plan{}, priced(e)};
  const std::string text = to_json(file).dump(1);
  CHECK(to_json(read_schedule(JsonFile::parse(text, "s.json"))).dump(1) == text);
}
