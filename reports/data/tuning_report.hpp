// The answer of `tune` as the public result file, data/schemas/tuning.schema.json.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/tuning.hpp"

namespace dovetail::reports {

inline constexpr const char* tuning_schema_version = "1.0";

nlohmann::ordered_json to_json(const Tuning& tuning);
void write_json(std::ostream& out, const Tuning& tuning);
void write_csv(std::ostream& out, const Tuning& tuning);  // a line for each of the best, then of the systems

}  // namespace dovetail::reports
