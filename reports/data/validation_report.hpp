// SPDX-License-Identifier: Apache-2.0
// A validation as a table for a terminal, as the public file data/schemas/validation.schema.json, and as a page with a
// parity plot.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/validation.hpp"

namespace dovetail::reports {

inline constexpr const char* validation_schema_version = "2.0";

nlohmann::ordered_json to_json(const Validation& validation);
void write_table(std::ostream& out, const Validation& validation, bool colour);
void write_html(std::ostream& out, const Validation& validation);

}  // namespace dovetail::reports
