// The one builder: (experiment, plan) -> schedule. No code path belongs to a published system.
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Throws InputError for a plan or experiment that cannot be built (see validate(Plan) and validate(Experiment)); order
// ready_first needs the costs of the plan's ops.
Schedule build_schedule(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail
