#include "models/plan.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>

#include "models/errors.hpp"
#include "models/volumes.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("what cannot be built is refused with the knob and the reason") {
  struct Case {
    std::function<void(Plan&)> change;
    std::string message;
  };
  const std::vector<Case> cases{
      {[](Plan& p) { p.scope = Scope::Batch; }, "/plan/scope: batch is not built yet; built: layer, moe"},
      {[](Plan& p) { p.split = Split::Peers; }, "/plan/split: peers is not built yet; built: capacity"},
      {[](Plan& p) { p.restore = Restore::S4; }, "/plan/restore: s4 is not built yet; built: keep"},
      {[](Plan& p) { p.host_sync = true; }, "/plan/host_sync: true is not built yet"},
      {[](Plan& p) { p.micro_batches = 4; }, "/plan/micro_batches: 4 do not divide the batch of 1 samples"},
      {[](Plan& p) { p.micro_batches = 0; }, "/plan/micro_batches: 0, expected 1 to 32767"},
      {[](Plan& p) { p.pipeline_schedule = PipelineSchedule::Interleaved; },
       "/plan/pipeline_schedule: interleaved is not built yet; built: gpipe, 1f1b"},
      {[](Plan& p) { p.gradient_chunk_bytes = 3; }, "/plan/gradient_chunk_bytes: 3, expected at least one element"},
      {[](Plan& p) { p.forward_degree = 0; }, "/plan/forward_degree: 0, expected at least 1"},
      {[](Plan& p) { p.forward_degree = 2; }, "/plan/forward_degree: 2 contradicts plan.scope layer"},
      {[](Plan& p) { p.backward_degree = 21, p.scope = Scope::Moe; },
       "/plan/backward_degree: 21 chunks, but an expert takes only 20 rows"},
      {[](Plan& p) { p.backward_degrees = {1}; }, "/plan/backward_degrees: 1 degrees for 2 layers"},
      {[](Plan& p) {
         p.gradient_slices = {{Window::Tail, 0, 1}};
       },
       "given, but plan.grad_sync is not partitioned"},
      {[](Plan& p) { p.grad_sync = GradSync::Partitioned; }, "slices add up to 0 elements, expected all 20971520"},
      {[](Plan& p) {
         p.grad_sync = GradSync::Partitioned;
         p.gradient_slices = {{Window::Moe, 1, 1}};
       },
       "the slice beside layer 1 ends at element 1, but only 0 gradients exist by then"},
      {[](Plan& p) {
         p.grad_sync = GradSync::Partitioned;
         p.gradient_slices = {{Window::Dense, 0, 1}, {Window::Moe, 0, 1}};
       },
       "windows are not in backward order"},
  };
  const Experiment e = test::testbed_b(2);
  for (const Case& c : cases) {
    Plan plan;
    c.change(plan);
    CHECK_THROWS_WITH(validate(plan, e), Contains(c.message));
  }
  CHECK_NOTHROW(validate(Plan{}, e));
}

TEST_CASE("grad_sync after, with_dense and fixed_chunks as slices, last layer first, each stage by itself") {
  Experiment e = test::testbed_b(3);
  const std::int64_t n = layer_volumes(e).dense_parameters;
  using Slices = std::vector<GradientSlice>;
  Plan p;
  CHECK(gradient_slices(p, e) == Slices{{Window::Tail, 0, n}, {Window::Tail, 0, n}, {Window::Tail, 0, n}});
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, e) == Slices{{Window::Dense, 1, n}, {Window::Dense, 0, n}, {Window::Tail, 0, n}});
  // Chunks of 2/3 of a layer, 4 bytes an element (n = 10485760 is 1 mod 3): after the last layer one is complete, after
  // the next one the rest of the first layer with half of the second, and another; what is left goes at the end.
  p.grad_sync = GradSync::FixedChunks;
  p.gradient_chunk_bytes = 4 * (2 * n / 3);
  const std::int64_t c = 2 * n / 3;
  CHECK(gradient_slices(p, e) == Slices{{Window::Moe, 1, c},
                                        {Window::Moe, 0, c},
                                        {Window::Moe, 0, c},
                                        {Window::Tail, 0, c},
                                        {Window::Tail, 0, 3 * n - 4 * c}});
  // Two stages: layers 0 and 1, and layer 2.
  e.parallelism.pp = 2;
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, e) == Slices{{Window::Tail, 2, n}, {Window::Dense, 0, n}, {Window::Tail, 0, n}});
}

TEST_CASE("slices of each stage carry the gradients of that stage") {
  Experiment e = test::testbed_b(3);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  const std::int64_t n = layer_volumes(e).dense_parameters;
  Plan p;
  p.grad_sync = GradSync::Partitioned;
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Moe, 0, n}, {Window::Tail, 0, n}};
  CHECK_NOTHROW(validate(p, e));
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Moe, 1, n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("beside layer 1 ends at element") && Contains("only 0 gradients"));
  p.gradient_slices = {{Window::Tail, 2, 2 * n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains(fmt::format("slices exceed the {} dense gradients", n)));
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Tail, 1, 2 * n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("a slice of the tail at layer 1, expected 0"));
}
