// A plan as JSON: every knob under its own name, with the names that files use for its values.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/plan/knob_table.hpp"

namespace dovetail {

nlohmann::ordered_json to_json(const Plan& plan, std::span<const Knob> table = knobs());
nlohmann::ordered_json value_json(const Knob& knob, const Plan& plan);

}  // namespace dovetail
