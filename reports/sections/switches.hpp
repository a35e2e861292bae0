// SPDX-License-Identifier: Apache-2.0
// The JSON of measured switches between plans, as a run's result has it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/results/switch_report.hpp"

namespace dovetail::reports {

nlohmann::ordered_json switching_json(const SwitchReport& report);  // "switching" of data/schemas/result.schema.json

}  // namespace dovetail::reports
