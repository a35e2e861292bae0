// The device's program of every op, on a device of host memory: outputs, gradients and drops are the reference's.
#include <catch2/catch.hpp>

#include "exec/compute_rules.hpp"
#include "exec/cuda/device_executor.hpp"
#include "exec/numerics.hpp"
#include "models/files/load.hpp"
#include "models/schedule_builder.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

bool runs_on_device(const Experiment& e, const Plan& plan) {
  return e.workload.gate.token_choice() && !e.workload.gate.cosine() && plan.encoding == Encoding::Sparse;
}

void check_numerics(const Experiment& e, const Plan& plan, std::uint64_t seed) {
  INFO(describe(e, plan));
  const auto device = make_host_device();
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const ModelData data = random_model_data(e, seed, plan.micro_batches);
  const ComputeRules rules = rules_of(*schedule);
  const Reference reference = compute_reference(e, data, rules);
  const auto executor = make_device_executor(*device, e, schedule, data, {Stored::Double, {}, reference.routing, {}});
  executor->run_step(Poison::Yes);
  const NumericsReport r = compare(e, *schedule, *executor, reference);
  CHECK(r.dropped == r.reference_dropped);
  CHECK(r.output_error <= tolerance_of(Element::Double, rules));
  CHECK(r.gradient_error() <= tolerance_of(Element::Double, rules));
}

}  // namespace

TEST_CASE("Random plans compute on a device what the reference does") {
  Random random(31);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Experiment e = random_experiment(random);
    const Plan plan = random_legal_plan(random, e);
    if (runs_on_device(e, plan)) check_numerics(e, plan, i);
  }
}
