// SPDX-License-Identifier: Apache-2.0
// Notes that tell the reader of a result what stands behind its numbers.
#pragma once
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::bench {

// One line for the costs that nobody published or measured, one for those measured while threads shared cores, and that
// of add_bad_fits, if there are such, and one for attention without a mask, whose flash kernel nobody measured. Costs
// of products count in the number formats that are computed in.
void add_assumptions(const Experiment& experiment, std::vector<std::string>& notes);

// One line for the costs whose measured times are far from the line that was fitted to them, if there are such.
void add_bad_fits(const Calibration& calibration, std::vector<std::string>& notes);

// A line for each thing that a run leaves out or does otherwise than the question asks: eager attention, layouts of
// stages.
void add_run_differences(const Experiment& asked, std::vector<std::string>& notes);

// One line if stages are pipelined and what passes between them has no cost of its own.
void add_stage_transfers(const Experiment& experiment, std::vector<std::string>& notes);

// One line on capacity, imbalance and drops, where the routing is given or the capacity follows it.
void add_routing(const Experiment& experiment, std::vector<std::string>& notes);

// Lines on what the results extrapolate, leave out or approximate: memory beside that of the layers, pipelines that
// cannot be filled, weights that a layout reads again, parts of the model that no step has, times of profiled modules,
// events, ranks that are unlike, the described network.
void add_limits(Report& report);

}  // namespace dovetail::bench
