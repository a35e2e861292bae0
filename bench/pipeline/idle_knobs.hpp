// SPDX-License-Identifier: Apache-2.0
// The knobs that systems set and that have nothing to act on in a question's groups of ranks.
#pragma once
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::bench {

// One line for each: an all-to-all of several levels among GPUs of one node or of a GPU each node; a choice how GPUs
// share an expert where each has its own; exchanges with experts where none leaves its GPU. Systems that differ in
// such a knob alone do the same.
std::vector<std::string> idle_knobs(const Report& report);

}  // namespace dovetail::bench
