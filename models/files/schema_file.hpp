// SPDX-License-Identifier: Apache-2.0
// The schemas of data/schemas, each with the other schemas that it refers to.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/base/json/json_schema.hpp"

namespace dovetail {

// "cluster" reads cluster.schema.json. References to other files ("units.schema.json#/definitions/time") become local
// ("#/definitions/units/definitions/time"), so that validate() can use the result. Throws InputError.
nlohmann::json load_schema(std::string_view name);

// The same, read once and kept. Not for several threads at once.
const JsonSchema& shipped_schema(std::string_view name);

}  // namespace dovetail
