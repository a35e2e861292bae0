// SPDX-License-Identifier: Apache-2.0
// The traffic that the links of a described network carry.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

SectionContent network_content(const Report& report, Detail detail) {
  SectionContent content;
  if (!in_depth(report, detail)) return content;
  content.headings = {"system", "links", "number", "each\nGB/s", "in all\nGB", "utilisation\n%"};
  for (const SystemResult& result : report.results) {
    std::string name = name_of(result);
    for (const NetworkUse& use : result.network)
      content.rows.push_back(
          {{std::exchange(name, ""), use.link, fmt::format("{:.0f}", use.links),
            fmt::format("{:.4g}", use.bandwidth.value() * 1e-9), fmt::format("{:.3f}", use.bytes.value() * 1e-9),
            fmt::format("{:.1f}", 100 * use.utilisation(result.metrics.makespan))}});
  }
  return content;
}

}  // namespace

Section network() {
  return {"network", Titled::Always, "Links of the described network, by kind.", network_content};
}

}  // namespace dovetail::reports
