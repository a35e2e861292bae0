// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/estimated_ratios.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/results/step_range.hpp"
#include "tests/planners/deep_pipelines.hpp"

using namespace dovetail;
using planners::EstimatedRatios;

TEST_CASE("The range of a step by estimate is that of the step itself") {
  const Experiment e = test::olmoe_in_stages(4, 8);
  REQUIRE(EstimatedRatios::apply_to(e));
  Plan plan;
  plan.scope = Scope::Moe;
  plan.micro_batches = 8;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  Plan chunked = plan;
  chunked.forward_degree = chunked.backward_degree = 2;
  const auto schedule_of = [&](const Plan& p) { return std::make_shared<const Schedule>(build_schedule(e, p)); };
  const std::array schedules{schedule_of(plan), schedule_of(chunked)};
  constexpr int draws = 40;
  const std::vector<StepRange> whole = step_ranges(e, schedules, draws, 1);
  EstimatedRatios ratios({{e, plan}, {e, chunked}});
  const std::vector<StepRange> estimated = step_ranges(
      e, schedules.size(), [&](Calibration costs) { return ratios(Shared<Calibration>(std::move(costs))); }, draws, 1);
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    CHECK(whole[i].high - whole[i].low > .05);
    CHECK(estimated[i].low == Approx(whole[i].low).epsilon(.01));
    CHECK(estimated[i].high == Approx(whole[i].high).epsilon(.025));
    for (std::size_t draw = 0; draw < draws; ++draw)
      CHECK(estimated[i].draws[draw] == Approx(whole[i].draws[draw]).epsilon(.03));
    REQUIRE(!whole[i].costs.empty());
    CHECK(estimated[i].costs.front().cost == whole[i].costs.front().cost);
  }
}

TEST_CASE("Steps that events disturb, and those of no whole model in training, have no range by estimate") {
  const Experiment e = test::olmoe_in_stages(4, 8);
  Experiment forward = e, disturbed = e, layers = e;
  forward.workload.phases = Phases::ForwardOnly;
  disturbed.events.emplace_back();
  layers.workload.extent = Extent::WholeLayers;
  for (const Experiment& other : {forward, disturbed, layers}) CHECK(!EstimatedRatios::apply_to(other));
}
