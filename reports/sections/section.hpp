// SPDX-License-Identifier: Apache-2.0
// A section of a report about its results. Its one source file knows its table, which text and page draw, and its JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::reports {

struct SectionTable {
  std::vector<std::string> headings;           // a second line is the unit: "step\nms"
  std::vector<std::vector<std::string>> rows;  // a cell for each heading; the first names the row
};

struct Section {
  const char* title;
  const char* hint;    // a sentence below the title
  const char* member;  // of each result in JSON
  bool brief;          // whether a terminal shows it for a result alone without -v
  // Without rows the section is left out.
  SectionTable (*table)(const Report& report);
  // The value of the member.
  nlohmann::ordered_json (*json)(const SystemResult& result);
};

// In the order in which text and page show them.
std::span<const Section> sections();

}  // namespace dovetail::reports
