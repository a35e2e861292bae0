// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/stage_costs.hpp"

#include <utility>

#include "models/plan/knob_table.hpp"
#include "models/price/calibration.hpp"
#include "models/price/collective_price.hpp"
#include "models/question/parameters.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::planners {
namespace {

// Every number of a part.
template <class Part, class Do>
void for_each_cost(Part& part, const PartCosts& other, Do each) {
  for (Seconds PartCosts::*time :
       {&PartCosts::forward, &PartCosts::backward, &PartCosts::pair, &PartCosts::weights, &PartCosts::launches_forward,
        &PartCosts::launches_backward, &PartCosts::launches_weights, &PartCosts::reduce, &PartCosts::update})
    each(part.*time, other.*time);
  for (int PartCosts::*count : {&PartCosts::waits_forward, &PartCosts::waits_backward}) each(part.*count, other.*count);
  for (Bytes PartCosts::*bytes : {&PartCosts::persistent, &PartCosts::held}) each(part.*bytes, other.*bytes);
}
void subtract(const PartCosts& less, PartCosts& part) {
  for_each_cost(part, less, [](auto& to, const auto& from) { to -= from; });
}

PartCosts difference(const StageTimes& more, const StageTimes& less) {
  PartCosts part;
  part.forward = more.forward - less.forward;
  part.backward = more.both - less.both - part.forward;
  part.pair = more.pair - less.pair;
  part.weights = (more.both - more.inputs) - (less.both - less.inputs);
  part.launches_forward = more.launches_forward - less.launches_forward;
  part.launches_backward = more.launches_backward - less.launches_backward;
  part.launches_weights = more.launches_weights - less.launches_weights;
  part.waits_forward = more.waits_forward - less.waits_forward;
  part.waits_backward = more.waits_backward - less.waits_backward;
  part.reduce = (more.reduced - more.both) - (less.reduced - less.both);
  part.update = (more.step - more.reduced) - (less.step - less.reduced);
  part.persistent = more.persistent - less.persistent;
  part.held = more.held - less.held;
  return part;
}

// Splits what a stage has beside its layers: the embedding is the first stage's, and all else the last one's.
void split_ends(const Experiment& e, const StageTimes& one, const PartCosts& layer, StageCosts& costs) {
  PartCosts& first = costs.first;
  first.forward = one.embedding_forward;
  first.backward = one.embedding_backward;
  if (one.pair > Seconds(0)) first.pair = first.forward + first.backward;
  PartCosts& last = costs.last;
  last = difference(one, {});
  subtract(layer, last);
  subtract(first, last);
  if (e.parallelism.pp == 1 || e.workload.extent != Extent::Model) return;
  // Both ends have a matrix of the vocabulary, which is one and the same where the head is tied and on one stage.
  // Layers of multi-token prediction embed words too, on the last stage.
  const bool tied = parameters(e.model).head == 0;
  const Bytes matrix = (tied ? 1 : .5) * last.persistent;
  first.persistent = matrix;
  last.persistent = !tied && e.workload.mtp_layers > 0 ? 2. * matrix : matrix;
  first.reduce = last.reduce;
  first.update = last.update;
}

// The rows of a micro-batch on their way to the next stage.
Seconds hop_of(const Experiment& e, const Calibration& calibration) {
  if (e.parallelism.pp == 1) return {};
  const LayerVolumes v = layer_volumes(e, 0);
  const Bytes rows = static_cast<double>(v.tokens * v.hidden) * size_of(e.workload.dtype);
  const GroupPlace place = place_of(e.parallelism, GroupKind::Pp, e.cluster);
  const ResourceTime time = find_cost(calibration, Collective::Send, place).of(rows);
  return time.fixed + time.busy;
}

// In halves if the plan's are.
Backward backward_of(const Plan& plan) {
  const bool halves = plan.pipeline().halves;
  return halves ? Backward::Halves : Backward::AsPlanned;
}

// 0: the plan has no pairs.
std::int64_t pairs_of(const Plan& plan) {
  return plan.scope == Scope::Batch ? 1 + static_cast<std::int64_t>(plan.pair_order) : 0;
}

std::vector<std::int64_t> key_of(const Experiment& stage, const Plan& plan, Backward backward, std::int64_t pairs = 0) {
  std::vector<std::int64_t> key = layout_key(stage);
  key.push_back(static_cast<std::int64_t>(backward));
  key.push_back(pairs);
  for (const Knob& knob : knobs()) append_value(knob, plan, key);
  return key;
}

// `e`: of one micro-batch.
StageCosts costs_of(const Experiment& e, const Plan& plan, const Calibration& calibration,
                    const BuiltPasses::Times& times) {
  const bool dense = e.model.dense();
  const StageTimes& one = times.of[0];
  StageCosts costs;
  PartCosts& layer = dense ? costs.dense : costs.moe;
  layer = difference(times.of[1], one);
  costs.working = times.working;
  if (!dense && e.model.first_moe() > 0) costs.dense = difference(times.of[2], one);
  split_ends(e, one, layer, costs);
  if (const auto& host = calibration.host; host && plan.graphs != Graphs::All) {
    const PassTimes passes = pass_times(host->profile, host->speed(), host_sizes(e));
    costs.pass_forward = passes.forward;
    costs.pass_backward = passes.backward;
  }
  if (e.workload.mtp_layers > 0) add(difference(times.of.back(), one), costs.last);
  return costs;
}

Experiment of_micro_batch(Experiment e, const Plan& plan) {
  e.workload.batch /= plan.micro_batches;
  return e;
}

}  // namespace

void add(const PartCosts& further, PartCosts& part) {
  for_each_cost(part, further, [](auto& to, const auto& from) { to += from; });
}

StageCosts with_both_ends(StageCosts costs, const Experiment& e, const StageLayout& layout) {
  if (layout.stages() > 1 && layout.has_begin(layout.ends_at()) && end_volumes(e).embedding_twice)
    costs.first.persistent = {};
  return costs;
}

BuiltStage::BuiltStage(const Experiment& experiment, const Plan& plan)
    : micro_batch_(of_micro_batch(experiment, plan)),
      plan_(of_one_stage(plan)),
      passes_(stage_alone(micro_batch_), of_passes_alone(plan), backward_of(plan)) {
  if (pairs_of(plan) != 0) pairs_.emplace(stage_alone(micro_batch_), plan);
  if (plan_ != of_passes_alone(plan)) steps_.emplace(stage_alone(micro_batch_), plan_, backward_of(plan));
}

StageCosts BuiltStage::costs(const Shared<Calibration>& calibration) const {
  BuiltPasses::Times times = passes_.timed(calibration);
  if (pairs_) pairs_->time_pairs(calibration, times.of);
  if (steps_) steps_->time_ends(calibration, times.of);
  return costs_of(micro_batch_, plan_, *calibration, times);
}

Seconds BuiltStage::hop(const Shared<Calibration>& calibration) const {
  return hop_of(micro_batch_, *calibration);
}

const BuiltPasses::Times& StageCostTable::passes(const Experiment& stage, const Plan& plan, Backward backward) {
  std::vector<std::int64_t> key = key_of(stage, plan, backward);
  const auto found = passes_.find(key);
  if (found != passes_.end()) return found->second;
  return passes_.emplace(std::move(key), BuiltPasses(stage, plan, backward).timed(stage.calibration)).first->second;
}

const StageCosts& StageCostTable::of(const Experiment& experiment, const Plan& plan) {
  const Experiment e = of_micro_batch(experiment, plan), stage = stage_alone(e);
  const Plan whole = of_one_stage(plan), alone = of_passes_alone(plan);
  const Backward backward = backward_of(plan);
  std::vector<std::int64_t> key = key_of(stage, whole, backward, pairs_of(plan));
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  BuiltPasses::Times times = passes(stage, alone, backward);
  if (pairs_of(plan) != 0) BuiltPairs(stage, plan).time_pairs(stage.calibration, times.of);
  if (whole != alone) BuiltSteps(stage, whole, backward).time_ends(stage.calibration, times.of);
  return known_.emplace(std::move(key), costs_of(e, whole, *e.calibration, times)).first->second;
}

Seconds StageCostTable::hop(const Experiment& experiment, const Plan& plan) {
  const Experiment e = of_micro_batch(experiment, plan);
  const auto [place, added] = hops_.try_emplace(layout_key(e));
  if (added) place->second = hop_of(e, *e.calibration);
  return place->second;
}

}  // namespace dovetail::planners
