// SPDX-License-Identifier: Apache-2.0
// The sizes that an experiment gives sub-modules of the user's own (models/extend).
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail {

GateSizes gate_sizes(const Experiment& experiment);
ExpertSizes expert_sizes(const Experiment& experiment);

// Sizes of the experiment's own gate or expert, which must be there: at least 1, because no tensor is empty.
std::int64_t gate_parameters(const Experiment& experiment);
std::int64_t expert_parameters(const Experiment& experiment);  // of one shard of one expert
std::int64_t expert_kept(const Experiment& experiment);        // of one row

// Throws InputError where the model or the workload contradicts the experiment's extensions.
void require_extensions(const Experiment& experiment);

}  // namespace dovetail
