// SPDX-License-Identifier: Apache-2.0
// Random plans and every shipped system, really executed: outputs, gradients and drops are those of the reference.
#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "bench/examples/custom_moe/nodes_first.hpp"
#include "bench/examples/custom_moe/reversed_order.hpp"
#include "bench/examples/custom_moe/tanh_expert.hpp"
#include "exec/host/host_executor.hpp"
#include "exec/run/numerics.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

void check_seeded_numerics(const Experiment& e, const Plan& plan, std::uint64_t seed) {
  INFO(describe(e, plan));
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const ModelData data = random_model_data(e, seed, plan.micro_batches);
  const ComputeRules rules = rules_of(*schedule);
  const Reference reference = compute_reference(e, data, rules);
  const auto transport =
      make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(e, schedule, Element::Double, data, reference.routing, *transport);
  executor->run_step(Poison::Yes);
  const NumericsReport r = compare(e, *schedule, *executor, reference);
  REQUIRE(r.dropped == r.reference_dropped);
  const double tolerance = rounding_growth(e) * tolerance_of(Element::Double, rules);
  REQUIRE(r.output_error <= tolerance);
  REQUIRE(r.gradient_error() <= tolerance);
}

}  // namespace

TEST_CASE("200 random plans compute what the reference does") {
  Random random(31);
  int grouped = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Experiment e = random_executable(random);
    const Plan plan = random_legal_plan(random, e);
    check_seeded_numerics(e, plan, i);
    grouped += plan.expert_kernel == ExpertKernel::Grouped ? 1 : 0;
  }
  CHECK(grouped > 0);
}

TEST_CASE("Programs that are listed in any order compute what the reference does") {
  const int wanted = cases(60);
  Random random(43);
  int listed = 0, laps = 0, there_and_back = 0, two_ways = 0, halves = 0, pairs = 0;
  for (std::uint64_t i = 0; listed < wanted; ++i) {
    const Experiment e = random_executable(random);
    Plan plan = random_legal_plan(random, e);
    if (e.parallelism.pp == 1 || plan.micro_batches == 1) continue;
    list_program(random, e, plan);
    if (refusal(plan, e)) continue;
    check_seeded_numerics(e, plan, i);
    ++listed;
    laps += plan.pipeline().shape == StageShape::Laps ? 1 : 0;
    there_and_back += plan.pipeline().shape == StageShape::V ? 1 : 0;
    two_ways += plan.pipeline().shape == StageShape::TwoWays ? 1 : 0;
    halves += plan.pipeline().halves ? 1 : 0;
    pairs += plan.scope == Scope::Batch ? 1 : 0;
  }
  CAPTURE(laps, there_and_back, two_ways, halves, pairs);
  CHECK(std::min({laps, there_and_back, halves, pairs}) >= wanted / 20);
  CHECK(two_ways >= wanted / 60);
}

TEST_CASE("100 random plans compute what the reference does with sub-modules of a program's own") {
  Random random(37);
  for (std::uint64_t i = 0; i < 100; ++i) {
    Experiment e = random_executable(random);
    const unsigned which = 1 + static_cast<unsigned>(i) % 15;  // a bit for each
    if ((which & 1U) != 0) e.extensions.gate = std::make_shared<HashGate>();
    if ((which & 2U) != 0) e.extensions.order = std::make_shared<ReversedOrder>();
    if ((which & 4U) != 0) e.extensions.expert = std::make_shared<TanhExpert>();
    if ((which & 8U) != 0) e.extensions.all_to_all = std::make_shared<NodesFirst>();
    e.workload.gate = {};  // soft ones need dense encoding
    e.workload.routing = {};
    if (which != 1) e.workload.message_sizes = MessageSizes::Padded;
    resolve_capacity(e);
    check_seeded_numerics(e, random_legal_plan(random, e), i);
  }
}

TEST_CASE("Every shipped system computes what the reference does") {
  Random random(7);
  for (const std::string& name : known_names("systems")) {
    Plan plan = shipped_plan(name);
    int run = 0;
    for (int attempt = 0; run < 5 && attempt < 1000; ++attempt) {
      Experiment e = random_executable(random);
      cut_rows(plan, 2 + attempt % 2);
      fill_pipeline(plan, e);
      if (refusal(plan, e)) continue;
      INFO(name);
      check_seeded_numerics(e, plan, 5);
      ++run;
    }
    CHECK(run == 5);
  }
}

TEST_CASE("Compressed rows come back by every strategy, in every ring") {
  Random random(5);
  for (const auto& [restore_name, restore] : restore_names)
    for (const auto& [buffers_name, buffers] : buffers_names) {
      Plan plan;
      plan.scope = Scope::Moe;
      plan.order = Order::Alternate;
      plan.restore = restore;
      plan.buffers = buffers;
      plan.dispatch_wire = plan.combine_wire = Wire::Fp8;
      bool run = false;
      for (int attempt = 0; !run && attempt < 1000; ++attempt) {
        const Experiment e = random_executable(random);
        plan.forward_degree = plan.backward_degree = 2 + attempt % 2;
        if (e.parallelism.ep == 1 || refusal(plan, e)) continue;
        check_seeded_numerics(e, plan, 9);
        run = true;
      }
      INFO(restore_name << ' ' << buffers_name);
      // A ring would overwrite what is kept, but for a forward pass alone.
      CHECK(run);
    }
}
