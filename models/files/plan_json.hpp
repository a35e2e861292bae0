// A plan as JSON: every knob under its own name, with the names that files use for its values.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/plan/plan.hpp"

namespace dovetail {

nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace dovetail
