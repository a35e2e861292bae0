// SPDX-License-Identifier: Apache-2.0
// The other plan that a run executes by turns with the chosen one (--alternate).
#pragma once
#include <string>
#include <vector>

#include "exec/host/alternation.hpp"
#include "exec/run/run_request.hpp"
#include "models/results/system_result.hpp"

namespace dovetail::bench {

// Throws InputError where such a run cannot alternate plans.
void require_alternation(const exec::RunRequest& request);

// The schedule of the chosen plan, and that of the same plan with these knobs ("plan.expert_sharding=ep_mp") set.
// Throws InputError, at --alternate, where a knob is wrong, the plan cannot be built or nothing of it changes, and
// where the two keep different things.
exec::SchedulePair alternating_plans(const Experiment& experiment, const SystemResult& chosen,
                                     const std::vector<std::string>& settings);

}  // namespace dovetail::bench
