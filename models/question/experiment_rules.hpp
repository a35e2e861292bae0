// SPDX-License-Identifier: Apache-2.0
// The rules of experiments.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail {

// Throws InputError when the parts do not fit together (groups, layers, head counts, capacity).
void validate(const Experiment& experiment);

// The part of these rules that is about messages of routed sizes.
void require_message_sizes(const Experiment& experiment);

}  // namespace dovetail
