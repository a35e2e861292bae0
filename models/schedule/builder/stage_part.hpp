// SPDX-License-Identifier: Apache-2.0
// The transfers between pipeline stages.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Sends the sum of `parts` (T, M), made by the stage entered, to a neighbour: `layer` is the first layer that follows
// the border between the two, or the number of layers where none does. Returns where it arrives there:
// layer_input[layer], in the backward pass its gradient.
TensorId send_to_stage(StepContext& c, int to, Phase phase, int layer, const TensorIds& parts);

// In the stage that it was sent to: what is read after this op is there.
void receive_from_stage(StepContext& c, Phase phase, int layer, TensorId arriving);

}  // namespace dovetail::builder
