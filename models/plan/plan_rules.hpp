// The rules of plans: they say which can be built for an experiment, and why the others cannot.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

// Throws InputError: a knob value not built yet ("plan.scope batch is not built yet; built: layer, moe"), a
// contradiction (scope layer with degree 2), a degree above the capacity, slices that do not add up.
void validate(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
