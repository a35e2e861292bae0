// SPDX-License-Identifier: Apache-2.0
// Completes a report with the figures that follow from its question and its schedules.
#pragma once
#include "models/results/result.hpp"

namespace dovetail {

// Sets the report's routing and the network use of each of its results.
void add_figures(Report& report);

}  // namespace dovetail
