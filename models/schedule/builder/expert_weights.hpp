// SPDX-License-Identifier: Apache-2.0
// Weights that ranks work with but do not own: gathered shards of their own experts, and shadowed experts, which every
// rank of the expert-parallel group computes on its own rows.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// The weights that this rank's experts work with: its own or, with gathered shards, those after the gather. They are
// kept for the backward pass, as Tutel does.
TensorId worked_weights(StepContext& c, int layer);

// The tensor in which the experts' weight gradients are summed.
struct WorkedGradient {
  TensorId tensor;
  bool has_value = false;  // else the first to write overwrites it
};
WorkedGradient worked_gradient(StepContext& c, int layer);
// Gathered shards: adds every rank's gradients to those of the owners.
void return_gradient(StepContext& c, int layer, const WorkedGradient& gradient);

// The activated rows of an expert op, which are kept beside its hidden rows.
TensorId add_activated(StepContext& c, const Op& op, std::int64_t rows);

// The tensors of one shadowed expert; all but the output are for the backward pass.
struct SavedShadow {
  int expert = 0;
  TensorId weights = {}, input = {}, hidden = {}, activated = {}, output = {};
};

// A tensor (1, C, M) for each shadowed expert; `phase` backward: of gradients.
TensorIds shadow_rows(StepContext& c, Phase phase, int layer, TensorKind kind);
// From the shadowed experts' rows to their results.
void shadows_forward(StepContext& c, int layer, std::vector<SavedShadow>& shadows);

// In two halves, since the exchange of other rows is enqueued between them: d_shadow_input, with the gradients' tensors
// in `gradients`; then the gradients to the experts' owners.
TensorIds shadows_backward(StepContext& c, int layer, const TensorIds& d_outputs, const std::vector<SavedShadow>& saved,
                           TensorIds& gradients);
void return_shadow_gradients(StepContext& c, int layer, const TensorIds& gradients);

}  // namespace dovetail::builder
