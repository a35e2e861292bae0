// SPDX-License-Identifier: Apache-2.0
// Gradients of weights that two stages hold: of the embedding where both ends of the model have it, or of all layers of
// a stage where two pipelines lie against each other. Both stages send what they have summed up over their own ranks,
// and add what the other one sends.
#pragma once
#include <vector>

#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// Whether the stage entered shares gradients with another one.
bool shares_gradients(const StepContext& c);

// Between all pairs of stages that do. Returns these stages.
std::vector<int> exchange_shared_gradients(StepContext& c);

}  // namespace dovetail::builder
