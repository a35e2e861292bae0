#include "bench/pipeline/plan_text.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("knobs that differ from their defaults stand first") {
  Plan plan;
  plan.forward_degree = 4;
  plan.scope = Scope::Moe;
  const std::string text = bench::plan_text(plan, false);
  CHECK_THAT(text, StartsWith("  forward_degree     4\n  scope              moe\n  other knobs: backward_degree 1, "));
}

TEST_CASE("gradient slices are counted, or listed when asked for") {
  Plan plan;
  plan.grad_sync = GradSync::Partitioned;
  plan.gradient_slices = {{Window::Moe, 0, 10}, {Window::Tail, 0, 20}};
  CHECK_THAT(bench::plan_text(plan, false), Contains("gradient_slices    2 (-v lists them)\n"));
  CHECK_THAT(bench::plan_text(plan, true),
             Contains("10 elements beside the experts of layer 0\n") && Contains("20 elements after the step\n"));
}
