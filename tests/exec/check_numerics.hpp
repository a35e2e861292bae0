// Runs a plan's step for real and compares it with the reference.
#pragma once
#include "exec/run/numerics.hpp"
#include "models/plan/plan.hpp"

namespace dovetail::test {

// With `preset` the gates use the reference's routing.
exec::NumericsReport numerics_of(const Experiment& experiment, const Plan& plan, exec::Element element,
                                 bool preset = true);

// In double with gates of their own and in float with the reference's routing, each within its tolerance.
void check_numerics(const Experiment& experiment, const Plan& plan, bool some_dropped = false);

}  // namespace dovetail::test
