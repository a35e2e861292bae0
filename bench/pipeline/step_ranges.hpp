// SPDX-License-Identifier: Apache-2.0
// How sure the steps of a report are.
#pragma once
#include "bench/cli/options.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

// Whether the result's time follows from the costs of the calibration: neither measured, nor of links alone.
bool is_by_costs(const SystemResult& result);

// Sets the ranges of modelled results with as many draws of the costs as the options ask for, and a note that says what
// they are. Results of a backend of links alone get none, because its times are not those of the calibration's costs.
void add_step_ranges(const Options& options, Report& report);

}  // namespace dovetail::bench
