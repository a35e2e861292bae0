// SPDX-License-Identifier: Apache-2.0
// The single MoE layers of FSMoE's Table 4: 1,458 on each of its testbeds.
#pragma once
#include <string_view>
#include <vector>

#include "models/question/experiment.hpp"

namespace dovetail::bench {

// `testbed`: 'a' or 'b'. One layer each: as many experts as nodes, k 2, fp32, mp and esp over a node's GPUs. Without a
// capacity factor ("f = *") a layer takes what drops nothing of uniform choices. Attention has as many key as query
// heads; a head is hidden / heads wide. In the order of the table's rows, the last one changing fastest.
std::vector<Experiment> fsmoe_layers(char testbed);

}  // namespace dovetail::bench
