// SPDX-License-Identifier: Apache-2.0
// Real models in many pipeline stages.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail::test {

// OLMoE on 32 H100, each stage with its own groups of experts, as many samples as asked for.
Experiment olmoe_in_stages(int stages, int samples);

}  // namespace dovetail::test
