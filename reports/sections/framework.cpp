// SPDX-License-Identifier: Apache-2.0
// The framework that all plans are for: values of the best plan of all that it cannot have, and what it would gain by
// them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/result_json.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

std::string gain_text(std::optional<Seconds> step, Seconds than) {
  if (!step) return "-";
  const double gain = 100 * (1 - *step / than);
  return fixed(std::abs(gain) < .05 ? 0 : gain, 1);  // not -0.0
}

std::string arguments_of(const ForFramework& framework) {
  std::string text;
  for (const std::string& line : framework.arguments) text += line + '\n';
  for (const std::string& line : framework.elsewhere) text += "# " + line + '\n';
  return text;
}

// A terminal has the arguments below everything else.
SectionContent framework_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!report.tuning || !report.tuning->framework || report.results.empty()) return content;
  const ForFramework& framework = *report.tuning->framework;
  if (detail == Detail::Page) content.code = arguments_of(framework);
  content.title = fmt::format("arguments of {}", framework.name);
  if (!framework.any) return content;
  const Seconds own = report.results.front().metrics.makespan, any = framework.any->metrics.makespan;
  content.title = fmt::format("what {} cannot do, and what it would gain by that", framework.name);
  content.headings = {"in the best\nplan of all", "its own\ninstead", "gain\nalone, %", "all but\nit, %",
                      "which brings along"};
  for (const MissingValue& missing : framework.missing)
    content.rows.push_back(
        {{printable(fmt::format("{} {}", missing.key, missing.value), 34),
          printable(missing.instead.empty() ? "-" : missing.instead, 16), gain_text(missing.alone, own),
          gain_text(missing.all_but, own), printable(fmt::format("{}", fmt::join(missing.along, ", ")), 26)}});
  if (!content.rows.empty())
    content.lines.push_back(
        {"gains of a step: its best plan with this alone, the best plan of all with what it has instead; -: cannot be "
         "built, or takes too much memory"});
  content.lines.push_back(
      {any < own
           ? fmt::format("all of it: {} a step, {} % less than {}, on {}", duration(any), gain_text(any, own),
                         duration(own), layout_text(*framework.any))
           : fmt::format("no plan of any framework was found that is faster than the best of {}", framework.name)});
  return content;
}

nlohmann::ordered_json framework_json(const Report& report, const ForFramework& framework) {
  auto missing = nlohmann::ordered_json::array();
  for (const MissingValue& each : framework.missing)
    missing.push_back({{"key", each.key},
                       {"value", each.value},
                       {"instead", each.instead},
                       {"along", each.along},
                       {"alone_s", number(each.alone)},
                       {"all_but_s", number(each.all_but)}});
  return {{"key", framework.key},
          {"name", framework.name},
          {"checked", framework.checked},
          {"arguments", framework.arguments},
          {"elsewhere", framework.elsewhere},
          {"any", framework.any ? result_json(report, *framework.any) : nlohmann::ordered_json(nullptr)},
          {"cannot", framework.cannot},
          {"missing", std::move(missing)},
          {"seconds", number(framework.time)}};
}

void add_framework(const Report& report, nlohmann::ordered_json& file) {
  if (!report.tuning) return;
  const std::optional<ForFramework>& framework = report.tuning->framework;
  file["framework"] = framework ? framework_json(report, *framework) : nlohmann::ordered_json(nullptr);
}

}  // namespace

Section framework() {
  return {"framework", Titled::Always, "", framework_content, nullptr, nullptr, add_framework};
}

}  // namespace dovetail::reports
