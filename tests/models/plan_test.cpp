#include "models/plan.hpp"

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
      {[](Plan& p) { p.restore = Restore::S4; }, "/plan/restore: s4 is not built yet; built: keep"},
      {[](Plan& p) { p.host_sync = true; }, "/plan/host_sync: true is not built yet"},
      {[](Plan& p) { p.micro_batches = 4; }, "/plan/micro_batches: 4 is not built yet; built: 1"},
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

TEST_CASE("grad_sync after and with_dense as slices, last layer first") {
  Plan p;
  CHECK(gradient_slices(p, 3, 10) ==
        std::vector<GradientSlice>{{Window::Tail, 0, 10}, {Window::Tail, 0, 10}, {Window::Tail, 0, 10}});
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, 3, 10) ==
        std::vector<GradientSlice>{{Window::Dense, 1, 10}, {Window::Dense, 0, 10}, {Window::Tail, 0, 10}});
}
