// SPDX-License-Identifier: Apache-2.0
// The memory of each pipeline stage at its fullest moment, by what it holds.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/time/memory_kinds.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

double sum_of(const MemoryByKind& stage) {
  double sum = 0;
  for (const Bytes bytes : stage) sum += bytes.value();
  return sum;
}

// The fastest result: a row for each stage, a column for each kind that is anywhere.
SectionContent memory_content(const Report& report, Detail detail) {
  SectionContent content;
  const SystemResult* best = best_of(report);
  if (detail == Detail::Brief || best == nullptr) return content;
  if (report.kind == "run") return content;  // sizes are scaled down
  content.title = fmt::format("memory by kind, of {}", name_of(*best));
  content.headings = {"stage", "peak\nGiB"};
  std::vector<std::size_t> shown;
  for (std::size_t kind = 0; kind < memory_kind_names.size(); ++kind)
    if (std::ranges::any_of(best->memory_by_stage, [&](const MemoryByKind& m) { return m[kind] > Bytes(0); })) {
      shown.push_back(kind);
      content.headings.push_back(replaced(std::string(memory_kind_names[kind].first), " ", "\n"));
    }
  for (std::size_t stage = 0; stage < best->memory_by_stage.size(); ++stage) {
    const MemoryByKind& of_stage = best->memory_by_stage[stage];
    std::vector<std::string> row{fmt::format("{}", stage), fmt::format("{:.2f}", sum_of(of_stage) / gib)};
    for (const std::size_t kind : shown) row.push_back(fmt::format("{:.2f}", of_stage[kind].value() / gib));
    content.rows.push_back({std::move(row)});
  }
  return content;
}

nlohmann::ordered_json memory_json(const SystemResult& result) {
  auto list = nlohmann::ordered_json::array();
  for (const MemoryByKind& of_stage : result.memory_by_stage) {
    nlohmann::ordered_json stage{{"peak_bytes", sum_of(of_stage)}};
    for (const auto& [name, kind] : memory_kind_names) {
      std::string key = fmt::format("{}_bytes", name);
      std::ranges::replace(key, ' ', '_');
      stage[key] = of_stage[static_cast<std::size_t>(kind)].value();
    }
    list.push_back(std::move(stage));
  }
  return list;
}

}  // namespace

Section memory_by_kind() {
  return {"memory by kind",
          Titled::Always,
          "Device memory of a rank of each pipeline stage at its own peak, in GiB, of the fastest system.",
          memory_content,
          "memory_by_stage",
          memory_json};
}

}  // namespace dovetail::reports
