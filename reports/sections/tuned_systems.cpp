// SPDX-License-Identifier: Apache-2.0
// Each system on the layout that suits it best, and on the winner's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/left_out.hpp"
#include "reports/sections/result_json.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

constexpr std::size_t few_systems = 5;  // without -v

std::string recomputed(const Plan& plan) {
  return plan.recompute.empty() ? "none" : plan.recompute.has(Recompute::Full) ? "full" : "parts";
}

std::vector<std::string> cells_of(const TunedSystem& system, const Report& report, bool all) {
  const SystemResult& own = system.own;
  const int decimals = ms_decimals(report);
  std::vector<std::string> cells = joined(
      joined({printable(own.system, 20)}, layout_cells(own)),
      {in_ms(own.metrics.makespan, decimals), fixed(own.metrics.makespan / report.results.front().metrics.makespan, 3),
       in_gib(own.memory.peak), in_ms(system.on_winners, decimals)});
  if (all) cells.push_back(recomputed(own.plan));
  return cells;
}

// Systems whose rows differ in nothing but the name share one, unless all is shown.
void add_rows(const Report& report, bool all, SectionContent& content) {
  std::vector<std::vector<std::string>> alike;  // by row: other names
  for (const TunedSystem& system : report.tuning->systems) {
    std::vector<std::string> cells = cells_of(system, report, all);
    const auto same = std::ranges::find_if(content.rows, [&](const SectionRow& row) {
      return std::equal(row.cells.begin() + 1, row.cells.end(), cells.begin() + 1, cells.end());
    });
    if (!all && same != content.rows.end()) {
      alike[static_cast<std::size_t>(same - content.rows.begin())].push_back(cells.front());
      continue;
    }
    content.rows.push_back({std::move(cells)});
    alike.emplace_back();
  }
  for (std::size_t i = 0; i < alike.size(); ++i)
    if (!alike[i].empty())
      content.rows[i].remarks.push_back({fmt::format("alike: {}", fmt::join(alike[i], ", ")), Mark::Dim});
}

SectionContent systems_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!report.tuning || report.results.empty()) return content;
  const bool all = detail != Detail::Brief;
  content.headings =
      joined(joined({"system"}, layout_headings()), {"step\nms", "x of\nbest", "memory\nGiB", "on best\nlayout"});
  if (all) content.headings.emplace_back("recom-\nputed");
  add_rows(report, all, content);
  if (!all && content.rows.size() > few_systems) {
    content.lines.push_back({"the others, which are slower, with -v"});
    content.rows.resize(few_systems);
  }
  for (std::string& line : left_out_lines(report.refused, !all)) content.lines.push_back({std::move(line)});
  return content;
}

void add_systems(const Report& report, nlohmann::ordered_json& file) {
  if (!report.tuning) return;
  nlohmann::ordered_json& list = file["systems"] = nlohmann::ordered_json::array();
  for (const TunedSystem& system : report.tuning->systems)
    list.push_back({{"own", result_json(report, system.own)}, {"on_best_layout_s", number(system.on_winners)}});
}

}  // namespace

Section tuned_systems() {
  return {"each system with its own best layout, and on the best one",
          Titled::Always,
          "",
          systems_content,
          nullptr,
          nullptr,
          add_systems};
}

}  // namespace dovetail::reports
