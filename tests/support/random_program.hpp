// SPDX-License-Identifier: Apache-2.0
// Programs that are listed, at random.
#pragma once
#include "models/plan/plan.hpp"
#include "tests/support/draw.hpp"

namespace dovetail::test {

// Any order in which so many ranks can run the plan's micro-batches through stages that lie as those of its schedule.
ListedProgram random_program(Random& random, const Plan& plan, int ranks);

}  // namespace dovetail::test
