// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/least_compute.hpp"

#include <algorithm>
#include <variant>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_price.hpp"
#include "models/schedule/op_table.hpp"
#include "planners/steps/one_stage.hpp"

namespace dovetail::planners {
namespace {

// The plan with nothing computed again, and its gradients reduced after the passes.
Plan least_of_passes(const Plan& plan) {
  Plan alone = of_one_stage(plan);
  alone.recompute = {};
  alone.zero = Plan{}.zero;
  alone.grad_sync = GradSync::After;
  alone.parameter_gather = ParameterGather::AfterUpdate;
  return alone;
}

// The shards of an expert may have other shapes, or none, which no calibration makes faster than the peak.
Seconds if_sharded_otherwise(const Experiment& stage, const Op& op) {
  const auto* kernel = std::get_if<KernelWork>(&*op.work);
  if (stage.parallelism.esp == 1 || entry_of(op.kind).part != OpPart::Experts || kernel == nullptr)
    return Seconds(1e300);
  const auto peak = stage.cluster.device.peak.find(stage.workload.products.value_or(stage.workload.dtype));
  return peak == stage.cluster.device.peak.end() ? Seconds(0) : kernel->flops / peak->second;
}

bool computes(const Schedule& s, const Op& op) {
  const OpEntry& entry = entry_of(op.kind);
  return s.streams[op.stream].kind == StreamKind::Compute && s.class_of(op) == 0 && !op.recomputed &&
         op.phase != Phase::Update && entry.part != OpPart::StepEnd && entry.part != OpPart::Routing;
}

struct Computed {
  Seconds all, embedding;
};
Computed computed(const Experiment& stage, const Plan& plan, Layers layers) {
  const PricedSchedule priced = price_plan(of_layers(stage, layers), plan);
  const Schedule& s = *priced.schedule;
  Computed sum;
  for (const OpId i : s.ops.ids()) {
    if (!computes(s, s.ops[i])) continue;
    const Seconds least = std::min(priced.duration[i], if_sharded_otherwise(stage, s.ops[i]));
    sum.all += least;
    if (s.ops[i].kind == OpKind::Embedding) sum.embedding += least;
  }
  return sum;
}

LeastCompute look_at(const Experiment& stage, const Plan& plan) {
  const bool dense = stage.model.dense();
  const Layers one = dense ? Layers{1, 0, 0} : Layers{0, 1, 0}, two = dense ? Layers{2, 0, 0} : Layers{0, 2, 0};
  const auto [of_one, embedding] = computed(stage, plan, one);
  const auto further = [&](Layers layers) { return computed(stage, plan, layers).all - of_one; };
  LeastCompute least;
  const Seconds layer = (dense ? least.dense : least.moe) = further(two);
  if (!dense && stage.model.first_moe() > 0) least.dense = further({1, 1, 0});
  least.first = embedding;
  least.last = of_one - layer - embedding;
  if (stage.workload.mtp_layers > 0) least.last += further({0, 1, stage.workload.mtp_layers});
  return least;
}

}  // namespace

const LeastCompute& LeastComputeTable::of(const Experiment& experiment, const Plan& plan) {
  Experiment e = experiment;
  const Workload& w = e.workload;
  if (!costs_) costs_.emplace(least_costs(*e.calibration, w.dtype, w.other_products()));
  e.workload.batch /= plan.micro_batches;
  e.calibration = *costs_;
  const Experiment stage = smallest_stage(std::move(e));
  const Plan alone = least_of_passes(plan);
  std::vector<std::int64_t> key = layout_key(stage);
  for (const Knob& knob : knobs()) append_value(knob, alone, key);
  const auto found = known_.find(key);
  return found != known_.end() ? found->second : known_.emplace(std::move(key), look_at(stage, alone)).first->second;
}

}  // namespace dovetail::planners
