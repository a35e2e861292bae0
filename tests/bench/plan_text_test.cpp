// SPDX-License-Identifier: Apache-2.0
#include "reports/text/plan_text.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "bench/pipeline/settings_text.hpp"
#include "tests/support/planted_knobs.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("the list of settings has every field and knob, with values, meaning and default") {
  const std::string text = bench::settings_text();
  CHECK_THAT(text, Contains("\n  workload.attention=flash|eager\n      flash: one kernel"));
  CHECK_THAT(text, Contains("[the cluster's, else flash]"));
  CHECK_THAT(text, Contains("\n  parallelism.sequence_parallel=true|false\n"));
  CHECK_THAT(text, Contains("\n  model.attention.kv_heads=\n"));
  CHECK_THAT(text, Contains("\n  cluster.network.pcie.bandwidth=\n"));
  for (const Knob& knob : knobs()) CHECK_THAT(text, Contains(fmt::format("\n  plan.{}=", knob.name)));
}

TEST_CASE("knobs that differ from their defaults stand first") {
  Plan plan;
  plan.forward_degree = 4;
  plan.scope = Scope::Moe;
  CHECK(reports::plan_text(plan, false) == "  forward_degree 4, scope moe\n");
  CHECK_THAT(reports::plan_text(plan, true),
             StartsWith("  forward_degree     4\n  scope              moe\n  other knobs: backward_degree 1, "));
  CHECK(reports::plan_text(Plan(), false) == "  every knob is at its default\n");
}

TEST_CASE("gradient slices are counted, or listed when asked for") {
  Plan plan;
  plan.grad_sync = GradSync::Partitioned;
  plan.gradient_slices = {{Window::Moe, 0, 10}, {Window::Tail, 0, 20}};
  CHECK_THAT(reports::plan_text(plan, false), Contains("gradient_slices 2 (-v lists them)\n"));
  CHECK_THAT(reports::plan_text(plan, true),
             Contains("10 elements beside the experts of layer 0\n") && Contains("20 elements after the step\n"));
}

TEST_CASE("a plan's text and the list of knobs know a value and a knob that are planted in the table") {
  const std::vector<Knob> table = test::planted_knobs();
  Plan plan;
  CHECK_THAT(reports::plan_text(plan, true, table), Contains("planted_knob 1"));
  plan.virtual_stages = 3;
  plan.scope = static_cast<Scope>(4);
  CHECK_THAT(reports::plan_text(plan, false, table), Contains("scope planted_value") && Contains("planted_knob 3"));
  const std::string text = reports::plan_text(plan, true, table);
  CHECK_THAT(text, Contains("  scope              planted_value\n") && Contains("  planted_knob       3\n"));
  const std::string list = bench::knobs_text(table);
  CHECK_THAT(list,
             Contains("  planted_knob               This knob is planted by a test. [1, others are not built yet]\n"));
  CHECK_THAT(list, Contains("      planted_value          It is planted by a test. Not built yet.\n"));
}
