// SPDX-License-Identifier: Apache-2.0
// Whether a run fits into the memory of this machine.
#pragma once
#include "models/base/units.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::exec {

// Throws InputError where a run of so many ranks needs more than this machine has: `tensors` of all of them, and in
// each of the processes the data of the whole model, twice if numerics are checked.
void require_memory(const Experiment& experiment, int ranks, Bytes tensors, double processes, bool check_numerics);

}  // namespace dovetail::exec
