// SPDX-License-Identifier: Apache-2.0
// The memory that a training framework keeps for itself, on the stage entered.
#pragma once
#include "models/schedule/builder/step_context.hpp"

namespace dovetail::builder {

// A persistent tensor for its empty gradients, one for each different shape of weights on the stage, and for the
// workspaces of its libraries. Nothing where the framework keeps neither.
void add_framework_buffers(StepContext& c);

}  // namespace dovetail::builder
