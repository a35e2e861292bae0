// SPDX-License-Identifier: Apache-2.0
// FSMoE's planner as the paper has it, for comparison: degrees by SLSQP, gradients by differential evolution, each
// layer then planned for the all-reduce that it carries. Nothing else competes with its plan.
#include <fmt/format.h>

#include "models/base/errors.hpp"
#include "planners/catalog/four_case_planner.hpp"
#include "planners/closed_form/four_case_slsqp.hpp"
#include "planners/closed_form/gradient_evolution.hpp"

namespace dovetail::planners {
namespace {

Plan paper_plan(const PlanningTask& task, const LayerTimes& t, std::span<const int> degrees) {
  if (task.base.comm_streams != CommStreams::InterIntra)
    throw InputError(Location{"", 0, 0, "/plan/comm_streams"},
                     fmt::format("{} contradicts the planner four_case_slsqp, whose four cases are of inter_intra; "
                                 "expected the planner four_case",
                                 name_in(comm_streams_names, task.base.comm_streams)));
  const auto degree = [&](const MoeTimes& moe, Seconds reduce) { return slsqp_degree(moe, reduce, degrees).degree; };
  const Plan plan = with_degrees(task.base, degree(t.forward.moe, Seconds(0)), degree(t.backward.moe, Seconds(0)));
  if (!chooses_slices(task)) return plan;
  GradientPartition partition = partition_gradients(t, plan.comm_streams, degrees, evolve_partition);
  const Plan sliced = with_partition(plan, partition);
  for (int layer = 0; layer < t.layers(); ++layer)
    if (t.is_moe(layer))
      partition.degrees[static_cast<std::size_t>(layer)] = degree(t.backward.moe, carried(sliced, t, layer));
  return with_partition(plan, partition);
}

}  // namespace

const Planner& four_case_slsqp() {
  static const FourCasePlanner planner({"four_case_slsqp", paper_plan, /*competes=*/false});
  return planner;
}

}  // namespace dovetail::planners
