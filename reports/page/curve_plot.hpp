// SPDX-License-Identifier: Apache-2.0
// Figures of the best plans over sizes of clusters.
#pragma once
#include <string>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

// A section of a page, with throughput and GPU-hours as curves; empty where no cluster has a plan.
std::string curve_figures(const TuningCurve& curve);

}  // namespace dovetail::reports
