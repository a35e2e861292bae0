// SPDX-License-Identifier: Apache-2.0
// FSMoE's own way to a degree (section 4): each of its four cases minimised over a real degree by SLSQP (NLopt's),
// under the inequalities Q1..Q7 that make up the case. A reference for the exact search of four_case.hpp.
#pragma once
#include <span>

#include "planners/closed_form/four_case.hpp"

namespace dovetail::planners {

// For all-to-alls co-scheduled with gathers. The paper does not say how it rounds: both candidates around the real
// degree are tried, and the one with the lower T of the paper is taken. `candidates` ascend. Throws DeviceError in a
// build without NLopt.
DegreeChoice slsqp_degree(const MoeTimes& times, Seconds all_reduce, std::span<const int> candidates);

}  // namespace dovetail::planners
