// SPDX-License-Identifier: Apache-2.0
// The text of the shipped files about knobs, made from the table: tests compare it with the files.
#pragma once
#include <span>
#include <string>

#include "models/plan/knob_table.hpp"
#include "models/plan/plan_rules.hpp"

namespace dovetail::test {

// data/schemas/plan.schema.json.
std::string plan_schema(std::span<const Knob> table);

// data/README.md with its lists of knobs and of rules between knobs, which stand between two marks, written anew.
std::string with_knob_lists(const std::string& readme, std::span<const Knob> table, std::span<const PlanRule> rules);

}  // namespace dovetail::test
