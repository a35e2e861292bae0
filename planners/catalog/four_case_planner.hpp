// SPDX-License-Identifier: Apache-2.0
// A planner by FSMoE's closed forms (sections 4 and 5): forward and backward degrees apart, gradients partitioned over
// the backward pass. How the closed forms are solved is a method; reading times and explaining a plan are shared.
#pragma once
#include <span>
#include <string_view>

#include "planners/closed_form/layer_times.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::planners {

struct FourCaseMethod {
  std::string_view name;
  // The plan that the closed forms take for the fastest of these degrees.
  Plan (*solve)(const PlanningTask& task, const LayerTimes& times, std::span<const int> degrees);
  // Plans with one degree for all compete with that plan, by the evaluator, which may know more (contention).
  bool competes = true;
};

class FourCasePlanner final : public Planner {
 public:
  explicit FourCasePlanner(const FourCaseMethod& method) : method_(method) {}
  std::string_view name() const override { return method_.name; }
  std::string_view chooses() const override { return "gradient slices"; }
  PlanChoice choose(const PlanningTask& task, const Evaluator& evaluate) const override;

 private:
  FourCaseMethod method_;
};

// Whether the task leaves open how dense gradients are sliced.
bool chooses_slices(const PlanningTask& task);

Plan with_degrees(Plan plan, int forward, int backward);

// All-reduce time that a layer's MoE part carries.
Seconds carried(const Plan& plan, const LayerTimes& times, int layer);

}  // namespace dovetail::planners
