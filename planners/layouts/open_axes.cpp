// SPDX-License-Identifier: Apache-2.0
#include "planners/layouts/open_axes.hpp"

#include <array>

#include "models/plan/knob_table.hpp"
#include "planners/layouts/arrangements.hpp"

namespace dovetail::planners {
namespace {

// Whether plan_space() leaves the knob as it is, though it computes the same. Captured graphs ask for more than a plan
// says: memory of their own, and shapes that do not change.
bool is_kept(const Knob& knob) {
  return knob.search == KnobSearch::Kept && knob.group != KnobClass::Numerics && knob.name != "graphs";
}

template <class Values, class Set>
Axis axis_of(const Values& values, Set set) {
  Axis axis;
  for (const auto& value : values) axis.push_back([=](Plan& plan) { set(plan, value); });
  return axis;
}

void append_degrees(const PlanSpace& open, std::vector<Axis>& axes) {
  axes.push_back(axis_of(open.forward_degrees, [](Plan& p, int degree) { p.forward_degree = degree; }));
  axes.push_back(axis_of(open.backward_degrees, [](Plan& p, int degree) { p.backward_degree = degree; }));
  axes.push_back(
      axis_of(open.forward_degrees, [](Plan& p, int degree) { p.forward_degree = p.backward_degree = degree; }));
}

}  // namespace

void set_pairs(Plan& plan, PairOrder order) {
  plan.scope = Scope::Batch;
  plan.pair_order = order;
  plan.forward_degree = plan.backward_degree = 1;
  plan.backward_degrees.clear();
}

Axis pairs_axis() {
  return axis_of(pair_order_names, [](Plan& p, const auto& order) { set_pairs(p, order.second); });
}

std::vector<Axis> chunk_axes_of(const PlanSpace& open) {
  std::vector<Axis> axes = open.arrangements;
  append_degrees(open, axes);
  return axes;
}

Axis pipeline_axis(const std::vector<Plan>& ways) {
  Axis axis;
  for (const Plan& way : ways)
    for (const EnumSet<Recompute>& parts : recomputed_parts())
      axis.push_back([way, parts](Plan& plan) {
        copy_knobs(KnobClass::Pipeline, way, plan);
        plan.recompute = parts.has(Recompute::Full) ? parts : parts | (plan.recompute & always_recomputed);
      });
  return axis;
}

std::vector<Axis> axes_of(const PlanSpace& open) {
  std::vector<Axis> axes = open.volumes;
  axes.insert(axes.end(), open.arrangements.begin(), open.arrangements.end());
  axes.push_back(open.keeping);
  append_degrees(open, axes);
  axes.push_back(axis_of(recomputed_parts(), [](Plan& p, EnumSet<Recompute> parts) { p.recompute = parts; }));
  axes.push_back(axis_of(recompute_names, [](Plan& p, const auto& part) {
    p.recompute = EnumSet<Recompute>::of_bits(p.recompute.bits() ^ EnumSet{part.second}.bits());
  }));
  for (const Knob& knob : knobs())
    if (const auto* choice = std::get_if<ChoiceKnob>(&knob.type); choice != nullptr && is_kept(knob))
      axes.push_back(axis_of(built_values(knob), choice->set));
  axes.push_back(
      axis_of(std::array{GradSync::After, GradSync::WithDense}, [](Plan& p, GradSync sync) { p.grad_sync = sync; }));
  axes.push_back(axis_of(std::array{0, 1, 2}, [](Plan& p, int way) {
    p.zero = way == 0 ? 0 : 1;
    p.parameter_gather = way == 2 ? ParameterGather::Ahead : ParameterGather::AfterUpdate;
  }));
  axes.push_back(pairs_axis());
  axes.push_back(axis_of(order_names, [](Plan& p, const auto& order) { p.order = order.second; }));
  return axes;
}

}  // namespace dovetail::planners
