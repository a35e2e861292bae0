// SPDX-License-Identifier: Apache-2.0
// The plans of a validation at one size: all that planners look at, or those of them that the grid asks for.
#pragma once
#include <string>
#include <vector>

#include "bench/validate/validation_grid.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

// For each system every plan that the planners' searches look at, with its predicted time, and their choices. If the
// grid limits the measured plans: those predicted fastest, the choices, each way to restore if the grid wants that, and
// all of a system whose plans a planner that learns chooses among. `name`: of the cell. `notes` gain planners that
// refuse a system.
ValidationCell considered_plans(const ValidationGrid& grid, const GridSize& size, const std::string& name,
                                const Experiment& experiment, std::vector<std::string>& notes);

// Predicts the plans of a cell once more, by the costs of this experiment of the same size.
void predict_unfitted(const Experiment& experiment, ValidationCell& cell);

}  // namespace dovetail::bench
