// SPDX-License-Identifier: Apache-2.0
// An explanation in a saved result: its sentences, which dovetail explain prints, and their numbers.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/results/explanation.hpp"

namespace dovetail::reports {

nlohmann::ordered_json explanation_json(const Explanation& explanation);

}  // namespace dovetail::reports
