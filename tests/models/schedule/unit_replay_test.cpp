// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/files/schedule_json.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/step_builder.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

// Micro-batches as large as the samples of the experiment that is drawn, through as many stages as it has.
std::pair<Experiment, Plan> of_micro_batches(test::Random& random) {
  for (;;) {
    Experiment e = test::random_experiment(random);
    Plan plan = test::random_plan(random, e);
    if (e.parallelism.pp > 1 && random() % 4 == 0) plan.virtual_stages = 2;
    if (random() % 4 == 0) plan.scope = Scope::Batch, plan.forward_degree = plan.backward_degree = 1;
    const bool halves = plan.scope != Scope::Batch && random() % 3 == 0;
    plan.pipeline_schedule = plan.virtual_stages > 1
                                 ? (halves ? pipeline_schedule("zb_v") : pipeline_schedule("interleaved"))
                                 : (halves ? pipeline_schedule("zb_h1") : pipeline_schedule("1f1b"));
    plan.micro_batches = e.parallelism.pp * static_cast<int>(2 + random() % 3);
    plan.order = plan.order == Order::ReadyFirst ? Order::Alternate : plan.order;
    e.workload.router_loads.clear();
    e.workload.batch *= plan.micro_batches;
    resolve_capacity(e);
    if (random() % 5 == 0) test::list_program(random, e, plan);
    if (!test::refusal(plan, e)) return {e, plan};
  }
}

nlohmann::ordered_json document(const Experiment& e, const Plan& plan, Units units) {
  return to_json({e, plan, price(std::make_shared<const Schedule>(build_step(e, plan, units)), e)});
}

}  // namespace

TEST_CASE("Micro-batches that are copied are those that would be built, and cost the same") {
  const int wanted = test::cases(160);
  int copied = 0, piped = 0, laps = 0, halves = 0, pairs = 0, waiting = 0, recomputed = 0, listed = 0;
  for (int seed = 1; copied < wanted && seed <= 8 * wanted; ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    const auto [e, plan] = of_micro_batches(random);
    if (build_step(e, plan).copies.empty()) continue;
    ++copied;
    piped += e.parallelism.pp > 1 ? 1 : 0;
    laps += plan.virtual_stages > 1 ? 1 : 0;
    halves += plan.pipeline().halves ? 1 : 0;
    pairs += plan.scope == Scope::Batch ? 1 : 0;
    listed += plan.lists_program() ? 1 : 0;
    waiting += plan.host_sync ? 1 : 0;
    recomputed += plan.recompute.empty() ? 0 : 1;
    INFO("seed " << seed << ": " << test::describe(e, plan));
    const bool equal = document(e, plan, Units::Copied) == document(e, plan, Units::Built);
    CHECK(equal);  // the documents are long
  }
  CHECK(copied == wanted);
  CAPTURE(piped, laps, halves, pairs, waiting, recomputed, listed);
  CHECK(std::min({piped, laps, halves, pairs, waiting, recomputed, listed}) >= wanted / 25);
}
