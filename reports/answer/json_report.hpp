// SPDX-License-Identifier: Apache-2.0
// A report as the public result file: the same report gives the same bytes. data/schemas/ has result.schema.json,
// tuning.schema.json of a search over layouts and tuning_curve.schema.json of several clusters.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/result.hpp"

namespace dovetail::reports {

inline constexpr const char* result_schema_version = "1.0";
inline constexpr const char* tuning_schema_version = "2.0";

nlohmann::ordered_json to_json(const Report& report);

// Indented, ending in a newline. Numbers that are not finite are null, invalid UTF-8 is replaced.
void write_json(std::ostream& out, const Report& report);

}  // namespace dovetail::reports
