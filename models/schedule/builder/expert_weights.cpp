// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/expert_weights.hpp"

#include <array>

namespace dovetail::builder {
namespace {

bool gathers_weights(const StepContext& c, int layer) {
  return c.volumes(layer).weight_shards > 1;
}

Op of_expert(Op op, int expert) {
  op.expert = static_cast<std::int16_t>(expert);
  return op;
}

Work shadow_work(const StepContext& c, const OpWork& work, Phase phase) {
  return work.shadowed_expert(phase, c.keeps_activated());
}

Op shadow_op(StepContext& c, Phase phase, int layer, int expert) {
  Op op = c.op(OpKind::Expert, phase, layer, c.streams().compute, shadow_work(c, c.work(layer), phase));
  op.rows = {0, c.volumes(layer).capacity};
  return of_expert(op, expert);
}

}  // namespace

TensorId add_activated(StepContext& c, const Op& op, std::int64_t rows) {
  return c.chunked(TensorKind::Activated, op, rows * c.volumes(op.layer).worked_hidden());
}

TensorId worked_weights(StepContext& c, int layer) {
  const TensorId own = c.weights(layer).expert;
  if (!gathers_weights(c, layer)) return own;
  const LayerVolumes& v = c.volumes(layer);
  const TensorId gathered = c.activation(TensorKind::GatheredWeights, layer, v.weight_shards * v.expert_parameters);
  c.add(c.op(OpKind::GatherExpertWeights, Phase::Forward, layer, c.streams().intra,
             c.work(layer).weight_shards(Collective::AllGather)),
        {own}, {gathered});
  return gathered;
}

WorkedGradient worked_gradient(StepContext& c, int layer) {
  if (!gathers_weights(c, layer)) return {c.weights(layer).expert_gradient, true};
  const LayerVolumes& v = c.volumes(layer);
  return {c.activation(TensorKind::GatheredWeightGradient, layer, v.weight_shards * v.expert_parameters), false};
}

void return_gradient(StepContext& c, int layer, const WorkedGradient& gradient) {
  if (!gathers_weights(c, layer)) return;
  const TensorId own = c.weights(layer).expert_gradient;
  c.add(c.op(OpKind::GatherExpertWeights, Phase::Backward, layer, c.streams().intra,
             c.work(layer).weight_shards(Collective::ReduceScatter)),
        {gradient.tensor, own}, {own});
}

TensorIds shadow_rows(StepContext& c, Phase phase, int layer, TensorKind kind) {
  TensorIds rows;
  for (int expert : c.plan().shadowed_experts)
    rows.push_back(c.chunked(kind, shadow_op(c, phase, layer, expert), c.volumes(layer).shadow_elements()));
  return rows;
}

void shadows_forward(StepContext& c, int layer, std::vector<SavedShadow>& shadows) {
  const LayerVolumes& v = c.volumes(layer);
  for (SavedShadow& shadow : shadows) {
    const Op broadcast = of_expert(c.op(OpKind::ShadowWeights, Phase::Forward, layer, c.streams().inter,
                                        c.work(layer).shadow(Collective::Broadcast)),
                                   shadow.expert);
    shadow.weights = c.chunked(TensorKind::GatheredWeights, broadcast, v.worked_parameters());
    c.add(broadcast, {c.weights(layer).expert}, {shadow.weights});
  }
  for (SavedShadow& shadow : shadows) {
    const Op work = shadow_op(c, Phase::Forward, layer, shadow.expert);
    shadow.hidden = c.expert_hidden(work, c.volumes(work.layer).capacity);
    shadow.output = c.chunked(TensorKind::ShadowOutput, work, v.shadow_elements());
    TensorIds writes{shadow.hidden, shadow.output};
    if (c.keeps_activated()) {
      shadow.activated = add_activated(c, work, v.capacity);
      writes.insert(writes.begin() + 1, shadow.activated);
    }
    c.add(work, std::array{shadow.input, shadow.weights}, writes);
  }
}

TensorIds shadows_backward(StepContext& c, int layer, const TensorIds& d_outputs, const std::vector<SavedShadow>& saved,
                           TensorIds& gradients) {
  const TensorIds d_inputs = shadow_rows(c, Phase::Backward, layer, TensorKind::ShadowInput);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const Op work = shadow_op(c, Phase::Backward, layer, saved[i].expert);
    gradients.push_back(c.chunked(TensorKind::GatheredWeightGradient, work, c.volumes(layer).worked_parameters()));
    TensorIds reads{d_outputs[i], saved[i].weights, saved[i].input, saved[i].hidden};
    if (saved[i].activated >= 0) reads.push_back(saved[i].activated);
    c.add_backward(
        work, c.work(layer), [&](const OpWork& w) { return shadow_work(c, w, Phase::Backward); }, reads,
        std::array{gradients.back(), d_inputs[i], c.expert_hidden(work, c.volumes(work.layer).capacity)});
  }
  return d_inputs;
}

void return_shadow_gradients(StepContext& c, int layer, const TensorIds& gradients) {
  const TensorId own = c.weights(layer).expert_gradient;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    c.add(of_expert(c.op(OpKind::ShadowWeights, Phase::Backward, layer, c.streams().inter,
                         c.work(layer).shadow(Collective::Reduce)),
                    c.plan().shadowed_experts[i]),
          {gradients[i], own}, {own});
}

}  // namespace dovetail::builder
