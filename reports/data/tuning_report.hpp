// SPDX-License-Identifier: Apache-2.0
// The answers of `tune` as public result files: data/schemas/tuning.schema.json and tuning_curve.schema.json.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

inline constexpr const char* tuning_schema_version = "1.0";

nlohmann::ordered_json to_json(const Tuning& tuning);
nlohmann::ordered_json to_json(const TuningCurve& curve);
void write_json(std::ostream& out, const Tuning& tuning);
void write_json(std::ostream& out, const TuningCurve& curve);
void write_csv(std::ostream& out, const Tuning& tuning);      // a line for each of the best, then of the systems
void write_csv(std::ostream& out, const TuningCurve& curve);  // a line for each cluster that has a plan

}  // namespace dovetail::reports
