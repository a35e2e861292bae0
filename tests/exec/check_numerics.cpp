// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/check_numerics.hpp"

#include <catch2/catch.hpp>

#include "exec/host/host_executor.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/network/rank_flows.hpp"
#include "models/price/build_schedule.hpp"

namespace dovetail::test {

using namespace exec;

NumericsReport numerics_of(const Experiment& e, const Plan& plan, Element element, bool preset) {
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  validate(*schedule);
  const ModelData data = random_model_data(e, 11, plan.micro_batches);
  const ComputeRules rules = rules_of(*schedule);
  const Reference reference = compute_reference(e, data, rules);
  const Reference exact = compute_reference(e, data, rules.exact());
  const auto transport =
      make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(
      e, schedule, element, data, preset ? reference.routing : std::vector<std::vector<Routing>>{}, *transport);
  executor->run_step(Poison::Yes);
  return compare(e, *schedule, *executor, reference, &exact);
}

void check_numerics(const Experiment& e, const Plan& plan, bool some_dropped) {
  for (Element element : {Element::Double, Element::Float}) {
    const NumericsReport r = numerics_of(e, plan, element, element == Element::Float);
    const double tolerance = tolerance_of(element, rules_of(build_schedule(e, plan)));
    CHECK(r.output_error <= tolerance);
    CHECK(r.input_gradient_error <= tolerance);
    CHECK(r.dense_gradient_error <= tolerance);
    CHECK(r.router_gradient_error <= tolerance);
    CHECK(r.expert_gradient_error <= tolerance);
    CHECK(r.dropped == r.reference_dropped);
    CHECK(r.ok(tolerance));
    if (some_dropped) CHECK(r.dropped > 0);
  }
}

ExecutedStep execute(const Experiment& e, const Plan& plan) {
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, plan));
  const auto transport =
      make_inproc_transport(schedule->groups, e.cluster.gpus(), static_cast<int>(schedule->streams.size()));
  const auto executor =
      make_host_executor(e, schedule, Element::Float, random_model_data(e, 3, plan.micro_batches), {}, *transport);
  executor->run_step(Poison::Yes);
  return {schedule, executor->sent_bytes()};
}

double simulated_bytes(const Experiment& e, const Schedule& schedule, const Op& op) {
  double sum = 0;
  for (const RankFlow& flow : RankFlows(e, schedule).of(op)) sum += flow.bytes.value();
  return sum;
}

}  // namespace dovetail::test
