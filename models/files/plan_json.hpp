// SPDX-License-Identifier: Apache-2.0
// A plan as JSON: every knob under its own name, with the names that files use for its values.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/plan/knob_table.hpp"
#include "models/question/parallelism.hpp"

namespace dovetail {

// In a plan file, beside the knobs.
inline constexpr const char* sequence_parallel_key = "sequence_parallel";

nlohmann::ordered_json to_json(const Plan& plan, std::span<const Knob> table = knobs());
// The file of a plan that was made for these groups, which load_plan() reads.
nlohmann::ordered_json plan_file_json(const Plan& plan, const Parallelism& groups);
nlohmann::ordered_json value_json(const Knob& knob, const Plan& plan);
std::string value_text(const Knob& knob, const Plan& plan);  // "moe", "4", "[2,1]"

}  // namespace dovetail
