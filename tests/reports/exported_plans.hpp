// SPDX-License-Identifier: Apache-2.0
// Plans that exports of flags are tried on: each value of each knob.
#pragma once
#include <string_view>
#include <vector>

#include "models/plan/knob_table.hpp"

namespace dovetail::test {

// Micro-batches one after the other (1f1b), the gathers of sequence parallelism recomputed, ZeRO 1.
Plan usual_plan();

// The same with what the knob needs to have an effect.
Plan with_its_effect(std::string_view knob);

// The plan with each other value of the knob: every built one of a choice, or some other number.
std::vector<Plan> others(const Knob& knob, const Plan& plan);

}  // namespace dovetail::test
