// SPDX-License-Identifier: Apache-2.0
// One planner, three ways to know how long a plan takes.
#include "bench/pipeline/evaluators.hpp"

#include <catch2/catch.hpp>

#include "exec/run/scale_down.hpp"
#include "models/base/build_info.hpp"
#include "models/base/errors.hpp"
#include "planners/catalog/registry.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

Experiment small_experiment() {
  exec::HostScale scale;
  scale.ranks = 2;
  scale.tokens_per_rank = 64;
  scale.hidden = scale.expert_hidden = scale.head_size = 32;
  return exec::scaled_for_host(test::round_numbers(1), scale);
}

Plan chunked(int degree) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = degree;
  return plan;
}

}  // namespace

TEST_CASE("Without contention model and simulation agree, and no held plan is faster than modelled") {
  const Experiment experiment = small_experiment();
  const planners::Evaluator analytic = make_evaluator("analytic", experiment);
  const planners::Evaluator host = make_evaluator("host", experiment, {Seconds(.05), 1});
  for (const int degree : {1, 2}) {
    const Seconds modelled = analytic(chunked(degree));
    if (DOVETAIL_HAS_SIMGRID != 0)
      CHECK(make_evaluator("simgrid", experiment)(chunked(degree)).value() == Approx(modelled.value()).epsilon(1e-9));
    const Seconds measured = host(chunked(degree));
    CHECK(measured >= modelled * .999);
    CHECK(host(chunked(degree)) == measured);  // asked again, it does not run again
  }
}

TEST_CASE("Every planner plans by really running plans") {
  const Experiment experiment = small_experiment();
  const planners::Evaluator host = make_evaluator("host", experiment, {Seconds(.02), 1});
  for (const char* name : {"exhaustive", "four_case"}) {
    INFO(name);
    const planners::PlanChoice choice =
        planners::find_planner(name).choose({experiment, chunked(1), {name, {1, 2}, true}}, host);
    CHECK(choice.plan.forward_degree == choice.plan.backward_degree);
    CHECK(host(choice.plan) <= host(chunked(1)));
    CHECK(host(choice.plan) <= host(chunked(2)));
  }
}

TEST_CASE("An unknown evaluator is refused with those there are") {
  CHECK_THROWS_WITH(make_evaluator("guess", small_experiment()),
                    Catch::Contains("analytic, simgrid, simgrid-flow, host, cuda"));
}
