// SPDX-License-Identifier: Apache-2.0
#include "exec/host/module_profile.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "exec/host/host_run.hpp"
#include "models/base/errors.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

Experiment with_own_modules() {
  SmallExperiment s;
  s.ep = s.dp = 2;
  Experiment e = small_experiment(s);
  e.workload.gate = {};
  e.extensions.gate = std::make_shared<HashGate>();
  e.extensions.expert = std::make_shared<TanhExpert>();
  return e;
}

MeasureSettings short_ones() {
  MeasureSettings settings;
  settings.limit = Seconds(.05);
  return settings;
}

}  // namespace

TEST_CASE("A program's own modules are timed over sizes, and their times take the place of stated work") {
  const Experiment e = with_own_modules();
  const std::array tokens{32, 64, 256};
  const ModuleProfiles profiles = profile_modules(e, tokens, short_ones());
  REQUIRE(profiles.gate);
  REQUIRE(profiles.expert);
  const std::vector<FitPoint>& rows = profiles.expert->forward.quality.points;
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].size > 3 * rows[1].size);  // four times as many tokens; the capacity is rounded
  CHECK(profiles.gate->forward.quality.points[0].size == 32);
  CHECK(profiles.expert->backward.beta > Seconds(0));

  const Experiment planned = with_profiles(e, profiles);
  CHECK(planned.model.expert_profile.provenance.origin == Origin::Fitted);
  Plan plan;
  plan.scope = Scope::Moe;
  const auto priced = std::make_shared<const PricedSchedule>(price_plan(planned, plan));
  for (const OpId i : priced->schedule->ops.ids()) {
    const Op& op = priced->schedule->ops[i];
    if (op.kind != OpKind::Expert || op.phase != Phase::Forward) continue;
    const LineFit& line = profiles.expert->forward;
    CHECK(priced->duration[i].value() ==
          Approx((line.alpha + static_cast<double>(op.profiled()->size) * line.beta).value()));
  }
  CHECK_THROWS_WITH(run_on_host(planned, priced), Catch::Contains("can be simulated, not executed"));
}

TEST_CASE("There must be a module of the program's own to profile, and two sizes") {
  Experiment e = with_own_modules();
  const std::array once{32, 32};
  CHECK_THROWS_AS(profile_modules(e, once, short_ones()), InputError);
  e.extensions = {};
  CHECK_THROWS_WITH(profile_modules(e, once, short_ones()), Catch::StartsWith("no gate and no experts of its own"));
}
