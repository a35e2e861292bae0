// SPDX-License-Identifier: Apache-2.0
// A result as it stands in a saved report, data/schemas/result.schema.json.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/results/result.hpp"

namespace dovetail::reports {

// `result`: one of the report's, or another that stands beside those.
nlohmann::ordered_json result_json(const Report& report, const SystemResult& result);

}  // namespace dovetail::reports
