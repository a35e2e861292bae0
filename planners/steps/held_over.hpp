// SPDX-License-Identifier: Apache-2.0
// Memory that no arrangement of a step does without.
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail::planners {

// Device memory that the backward pass needs of the forward one, with weights and states, whatever the degrees; of the
// class that needs most. With several micro-batches, or without rows, only the latter.
Bytes held_over(const Schedule& schedule, bool rows = true);

}  // namespace dovetail::planners
