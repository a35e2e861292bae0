// SPDX-License-Identifier: Apache-2.0
// Why the best plan takes so long, and what would change that, in words.
#include <nlohmann/json.hpp>

#include "reports/data/explanation_json.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/explanation_text.hpp"

namespace dovetail::reports {
namespace {

SectionContent explanation_content(const Report& report, Detail) {
  SectionContent content;
  if (!report.explanation) return content;
  for (std::string& paragraph : explanation_text(*report.explanation)) content.lines.push_back({std::move(paragraph)});
  return content;
}

void add_explanation(const Report& report, nlohmann::ordered_json& file) {
  if (report.explanation) file["explanation"] = explanation_json(*report.explanation);
}

}  // namespace

Section explanation() {
  return {"explanation", Titled::Always, "", explanation_content, nullptr, nullptr, add_explanation};
}

}  // namespace dovetail::reports
