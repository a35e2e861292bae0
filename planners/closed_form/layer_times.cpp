// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/layer_times.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/plan/knob_table.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "models/question/capacity.hpp"
#include "models/schedule/op_table.hpp"

namespace dovetail::planners {
namespace {

// The ops of one layer; `before` and `after` attention swap their kinds in the backward pass, and so do the
// ESP collectives: what a phase gathers first is the gradient of what the other scattered last.
void read_layer_op(const Op& op, Seconds fixed, Seconds duration, PhaseTimes& phase) {
  const bool forward = op.phase == Phase::Forward;
  const ChunkTime chunk{fixed, duration - fixed};
  switch (op.kind) {
    case OpKind::MpAllGather:
      (forward ? phase.mp_before : phase.mp_after) += duration;
      break;
    case OpKind::MpAllReduce:
      phase.mp_after += duration;
      break;
    case OpKind::MpReduceScatter:
      (forward ? phase.mp_after : phase.mp_before) += duration;
      break;
    case OpKind::EspAllGather:
      (forward ? phase.moe.all_gather : phase.moe.reduce_scatter) = chunk;
      break;
    case OpKind::EspAllReduce:
      phase.moe.reduce_scatter = chunk;
      break;
    case OpKind::EspReduceScatter:
      (forward ? phase.moe.reduce_scatter : phase.moe.all_gather) = chunk;
      break;
    case OpKind::Dispatch:  // Combine takes as long
      phase.moe.all_to_all.alpha += chunk.alpha;
      phase.moe.all_to_all.work += chunk.work;
      break;
    case OpKind::Expert:
      phase.moe.expert = chunk;
      break;
    case OpKind::Projection:
    case OpKind::QueryKeyNorm:
    case OpKind::Attention:
      phase.attention += duration;
      break;
    case OpKind::Gate:
      phase.gate = duration;
      break;
    case OpKind::Encode:
      phase.encode = duration;
      break;
    case OpKind::Decode:
      phase.decode = duration;
      break;
    default:
      break;
  }
}

// Collectives of a dense feed-forward part share kinds with the attention's.
bool belongs_to_ffn(const Schedule& s, const Op& op) {
  return entry_of(op.kind).part == OpPart::DenseFfn || touches_ffn(s, op);
}

void read_ffn_op(const Op& op, Seconds duration, FfnTimes& times) {
  if (op.kind == OpKind::DenseFfn)
    times.ffn = duration;
  else
    (times.ffn == Seconds(0) ? times.before : times.after) += duration;
}

int first_layer(const LayerTimes& times, bool moe) {
  return static_cast<int>(std::ranges::find(times.moe, moe) - times.moe.begin());
}

}  // namespace

std::int64_t LayerTimes::elements_after(int layer) const {
  return std::reduce(dense_elements.begin() + layer + 1, dense_elements.end());
}

LayerTimes LayerTimes::of_layers(std::span<const int> layers) const {
  LayerTimes part = *this;
  part.moe.clear();
  part.dense_elements.clear();
  for (int layer : layers) {
    part.moe.push_back(is_moe(layer));
    part.dense_elements.push_back(dense_elements[static_cast<std::size_t>(layer)]);
  }
  const auto experts = [](const LayerTimes& times) { return static_cast<double>(std::ranges::count(times.moe, true)); };
  part.expert_all_reduce = expert_all_reduce * (experts(part) / experts(*this));
  return part;
}

bool touches_ffn(const Schedule& s, const Op& op) {
  for (const auto& ids : {s.reads_of(op), s.writes_of(op)})
    for (TensorId id : ids)
      if (const TensorKind kind = s.tensors[id].kind; kind == TensorKind::FfnInput || kind == TensorKind::FfnPartial)
        return true;
  return false;
}

// Broadcasts of shadowed experts are left out: they run beside everything else.
Plan sequential_plan(const Plan& plan) {
  Plan sequential;
  copy_knobs(KnobClass::Volumes, plan, sequential);
  sequential.shadowed_experts.clear();
  return sequential;
}

LayerTimes layer_times(const Experiment& whole, const Plan& plan) {
  Experiment experiment = one_micro_batch(whole, plan.micro_batches);
  LayerTimes times;
  times.layout = stage_layout(plan, whole);
  if (plan.virtual_stages > 1) experiment.parallelism.pipeline_layout.clear();  // which the sequential plan cannot have
  const PricedSchedule priced = price_plan(experiment, sequential_plan(plan));
  const Schedule& schedule = *priced.schedule;
  const LayerVolumes volumes = layer_volumes(experiment);
  for (int layer = 0; layer < experiment.workload.all_layers(); ++layer)
    times.moe.push_back(experiment.model.is_moe(layer));
  times.capacity = volumes.capacity;
  times.dense_elements = dense_elements(experiment, times.layout);
  std::vector<Seconds> updates(schedule.classes.size());
  const int moe_layer = first_layer(times, true), dense_layer = first_layer(times, false);
  for (const OpId i : schedule.ops.ids()) {
    const Op& op = schedule.ops[i];
    const Seconds fixed = priced.fixed[i], duration = priced.duration[i];
    if (op.kind == OpKind::DenseGradientAllReduce) {
      times.all_reduce_alpha = fixed;
      times.all_reduce_per_element = (duration - fixed) / static_cast<double>(op.gradients.size());
    } else if (op.kind == OpKind::ExpertGradientAllReduce) {
      times.expert_all_reduce += duration;
    } else if (op.kind == OpKind::ParameterAllGather) {
      continue;  // every plan of the same volumes has it
    } else if (op.phase == Phase::Update) {
      updates[static_cast<std::size_t>(schedule.class_of(op))] += duration;
    } else if (op.layer == moe_layer || op.layer == dense_layer) {
      const bool forward = op.phase == Phase::Forward, moe = op.layer == moe_layer;
      PhaseTimes& phase = forward ? times.forward : times.backward;
      if (belongs_to_ffn(schedule, op))
        read_ffn_op(op, duration, moe ? phase.shared : forward ? times.dense_forward : times.dense_backward);
      else if (moe)
        read_layer_op(op, fixed, duration, phase);
    }
  }
  times.update = *std::ranges::max_element(updates);
  return times;
}

}  // namespace dovetail::planners
