// SPDX-License-Identifier: Apache-2.0
// The sizes of a step's work beside those that its costs were fitted to.
#pragma once
#include <string>
#include <vector>

#include "models/question/experiment.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// A sentence for each cost that the schedule uses far outside of the sizes that it was fitted to. Small sizes count
// only where the fit does not tell alpha.
std::vector<std::string> sizes_outside(const Schedule& schedule, const Experiment& experiment);

}  // namespace dovetail
