// SPDX-License-Identifier: Apache-2.0
// The table of knobs with what nobody else knows of: one more value of scope, and one more knob, which is kept in a
// member of Plan that another knob has. Tests see that whoever is given this table knows both.
#pragma once
#include <vector>

#include "models/plan/knob_table.hpp"

namespace dovetail::test {

inline void plant_value(std::vector<Knob>& table, std::string_view knob, KnobValue value) {
  for (Knob& each : table)
    if (each.name == knob) {
      auto& choice = std::get<ChoiceKnob>(each.type);
      choice.stored.at(choice.count++) = value;
    }
}

inline std::vector<Knob> planted_knobs() {
  std::vector<Knob> table(knobs().begin(), knobs().end());
  plant_value(table, "scope", {"planted_value", 4, "It is planted by a test.", false});
  table.push_back({.name = "planted_knob",
                   .type = CountKnob{&Plan::virtual_stages, 1, 9},
                   .group = KnobClass::Arrangement,
                   .search = KnobSearch::Kept,
                   .holds_rows = false,
                   .built = false,
                   .help = "This knob is planted by a test."});
  return table;
}

}  // namespace dovetail::test
