// SPDX-License-Identifier: Apache-2.0
// The costs on which a step depends most, within the ranges in which they are known.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/base/names.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

std::string change(double ratio) {
  return fmt::format("{:+.1f}", (ratio - 1) * 100);
}

// The table is that of the fastest result alone; the data has those of all.
SectionContent costs_content(const Report& report, Detail detail) {
  SectionContent content;
  const SystemResult* best = best_of(report);
  if (!in_depth(report, detail) || best == nullptr || !best->range) return content;
  content.headings = {"system", "cost", "known\nfrom", "within\nx", "step, if the\ncost is low, %", "high, %"};
  std::string name = name_of(*best);
  for (const CostInfluence& cost : best->range->costs)
    content.rows.push_back(
        {{std::exchange(name, ""), printable(cost.cost, 60), std::string(name_in(origin_names, cost.origin)),
          fmt::format("{:.3g}", cost.within), change(cost.fast), change(cost.slow)}});
  return content;
}

nlohmann::ordered_json costs_json(const SystemResult& result) {
  auto list = nlohmann::ordered_json::array();
  if (!result.range) return list;
  for (const CostInfluence& cost : result.range->costs)
    list.push_back({{"cost", cost.cost},
                    {"origin", name_in(origin_names, cost.origin)},
                    {"within", cost.within},
                    {"low_s", cost.fast * result.metrics.makespan.value()},
                    {"high_s", cost.slow * result.metrics.makespan.value()}});
  return list;
}

}  // namespace

Section costs_that_matter() {
  return {"costs that matter most",
          Titled::Always,
          "The step while one cost is at an end of the range in which it is known and all others are as calibrated.",
          costs_content,
          "costs_that_matter",
          costs_json};
}

}  // namespace dovetail::reports
