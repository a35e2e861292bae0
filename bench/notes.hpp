// What a reader of a result must know about the numbers behind it.
#pragma once
#include <string>
#include <vector>

#include "models/result.hpp"

namespace dovetail::bench {

// One line for the costs that nobody published or measured, if there are such.
void add_assumptions(const Calibration& calibration, std::vector<std::string>& notes);

// One line if stages are pipelined and what passes between them has no cost of its own.
void add_stage_transfers(const Experiment& experiment, std::vector<std::string>& notes);

// One line on capacity, imbalance and drops, where the routing is given or the capacity follows it.
void add_routing(const Experiment& experiment, std::vector<std::string>& notes);

// One line for each profiled module whose times were extrapolated in a result.
void add_extrapolations(Report& report);

// Lines on what ranks that are unlike, events and a described network leave out or approximate in the results.
void add_network(Report& report);

}  // namespace dovetail::bench
