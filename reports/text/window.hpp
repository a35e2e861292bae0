// SPDX-License-Identifier: Apache-2.0
// The part of a step that is worth looking at first.
#pragma once
#include "models/time/timeline.hpp"

namespace dovetail::reports {

// From the last layer's forward pass to the end of the backward pass of the layer before it: one forward
// pass, and a backward pass beside which gradients of a later layer can be reduced. The whole step when it
// has two layers or fewer, pipeline stages or micro-batches.
Interval representative_window(const Schedule& schedule, const Timeline& timeline);

}  // namespace dovetail::reports
