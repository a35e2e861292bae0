#include "planners/layer_times.hpp"

#include <memory>
#include <utility>

#include "models/price.hpp"
#include "models/schedule_builder.hpp"

namespace dovetail::planners {
namespace {

// The ops of one layer; `before` and `after` attention swap their kinds in the backward pass, and so do the
// ESP collectives: what a phase gathers first is the gradient of what the other scattered last.
void read_layer_op(const Op& op, Seconds fixed, Seconds duration, PhaseTimes& phase) {
  const bool forward = op.phase == Phase::Forward;
  const ChunkTime chunk{fixed, duration - fixed};
  switch (op.kind) {
    case OpKind::MpAllGather:
      (forward ? phase.mp_before : phase.mp_after) = duration;
      break;
    case OpKind::MpReduceScatter:
      (forward ? phase.mp_after : phase.mp_before) = duration;
      break;
    case OpKind::EspAllGather:
      (forward ? phase.moe.all_gather : phase.moe.reduce_scatter) = chunk;
      break;
    case OpKind::EspReduceScatter:
      (forward ? phase.moe.reduce_scatter : phase.moe.all_gather) = chunk;
      break;
    case OpKind::Dispatch:  // Combine takes as long
      phase.moe.all_to_all = chunk;
      break;
    case OpKind::Expert:
      phase.moe.expert = chunk;
      break;
    case OpKind::Attention:
      phase.attention = duration;
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

}  // namespace

LayerTimes layer_times(const Experiment& experiment, Encoding encoding) {
  Plan plan;
  plan.encoding = encoding;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(experiment, plan));
  const PricedSchedule priced = price(schedule, experiment);
  const LayerVolumes volumes = layer_volumes(experiment);
  LayerTimes times;
  times.layers = experiment.workload.layers;
  times.capacity = volumes.capacity;
  times.dense_elements = volumes.dense_parameters;
  for (std::size_t i = 0; i < schedule->ops.size(); ++i) {
    const Op& op = schedule->ops[i];
    const Seconds fixed = priced.fixed[i], duration = priced.duration[i];
    if (op.kind == OpKind::DenseGradientAllReduce) {
      times.all_reduce_alpha = fixed;
      times.all_reduce_per_element = (duration - fixed) / static_cast<double>(op.rows.size());
    } else if (op.kind == OpKind::ExpertGradientAllReduce) {
      times.expert_all_reduce += duration;
    } else if (op.kind == OpKind::Update) {
      times.update = duration;
    } else if (op.layer == 0) {
      read_layer_op(op, fixed, duration, op.phase == Phase::Forward ? times.forward : times.backward);
    }
  }
  return times;
}

}  // namespace dovetail::planners
