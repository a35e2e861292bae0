// SPDX-License-Identifier: Apache-2.0
// A section of a report. Its one source file knows what it says, which text and page show, and its JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail::reports {

enum class Mark { None, Best, Good, Bad, Dim };

struct SectionLine {
  std::string text;  // without line ends
  Mark mark = Mark::None;
};

struct SectionRow {
  std::vector<std::string> cells;  // a cell for each heading; the first names the row
  Mark mark = Mark::None;
  std::vector<SectionLine> remarks = {};  // below the row
};

struct SectionContent {
  std::string title = {};                  // in place of the section's own
  std::vector<std::string> headings = {};  // a second line is the unit: "step\nms"
  std::vector<SectionRow> rows = {};
  std::vector<SectionLine> lines = {};  // below the table
  std::string code = {};                // as it is, with line ends
  bool empty() const { return rows.empty() && lines.empty() && code.empty(); }
};

// A terminal without -v, one with it, or a page.
enum class Detail { Brief, Full, Page };

enum class Titled { Always, InFull, OnPages };

struct Section {
  const char* title;
  Titled titled;     // where the title is shown
  const char* hint;  // a sentence below the title of a page; empty: none
  // Content that is empty is left out.
  SectionContent (*content)(const Report& report, Detail detail);
  // A member of each result in JSON; null: none.
  const char* member = nullptr;
  nlohmann::ordered_json (*json)(const SystemResult& result) = nullptr;
  // Adds the section's own members to the file; null: it has none.
  void (*add_json)(const Report& report, nlohmann::ordered_json& file) = nullptr;
};

// In the order in which text and page show them.
std::span<const Section> sections();

// Whether a section about one result in depth is shown: without -v only where that is all that was asked for.
bool in_depth(const Report& report, Detail detail);

}  // namespace dovetail::reports
