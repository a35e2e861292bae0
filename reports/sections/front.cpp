// SPDX-License-Identifier: Apache-2.0
// Step time against memory: the plans that no other is both faster and smaller than.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/section.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

// "one, s4, double" is what sets a point of a front apart.
std::string memory_knobs(const Plan& plan) {
  std::string text = fmt::format("degree {} / {}", plan.forward_degree, backward_degrees(plan));
  if (plan.restore != Restore::Keep) text += fmt::format(", restore {}", name_in(restore_names, plan.restore));
  if (plan.buffers != Buffers::PerChunk) text += fmt::format(", buffers {}", name_in(buffers_names, plan.buffers));
  if (plan.micro_batches > 1) text += fmt::format(", {} micro-batches", plan.micro_batches);
  return text;
}

void add_layouts(const Report& report, SectionContent& content) {
  const std::vector<SystemResult>& front = report.tuning->front;
  if (front.size() < 2) return;
  content.headings = joined(joined({"plan of"}, layout_headings()), {"step\nms", "memory\nGiB"});
  for (const SystemResult& plan : front)
    content.rows.push_back({joined(joined({printable(plan.system, 20)}, layout_cells(plan)),
                                   {in_ms(plan.metrics.makespan, ms_decimals(report)), in_gib(plan.memory.peak)})});
}

SectionContent front_content(const Report& report, Detail detail) {
  SectionContent content;
  if (detail == Detail::Brief) return content;
  if (report.tuning) {
    add_layouts(report, content);
    return content;
  }
  content.headings = {"looked at by", "plan", "step\nms", "memory\nGiB"};
  for (const SystemResult& result : report.results) {
    const std::vector<FrontPoint>& front = result.planner.front;
    if (front.size() < 2 || is_measured(result)) continue;
    std::string name = name_of(result);
    for (const FrontPoint& point : front)
      content.rows.push_back({{std::exchange(name, ""), memory_knobs(point.plan),
                               in_ms(point.time, ms_decimals(report)), in_gib(point.memory, 2)}});
  }
  return content;
}

void add_front(const Report& report, nlohmann::ordered_json& file) {
  if (!report.tuning) return;
  nlohmann::ordered_json& list = file["front"] = nlohmann::ordered_json::array();
  for (const SystemResult& plan : report.tuning->front)
    list.push_back({{"system", plan.system},
                    {"parallelism", dovetail::to_json(plan.groups)},
                    {"micro_batch", plan.micro_batch},
                    {"step_s", number(plan.metrics.makespan)},
                    {"peak_bytes", number(plan.memory.peak)},
                    {"plan", dovetail::to_json(plan.plan)}});
}

}  // namespace

Section front() {
  return {"time against memory",
          Titled::Always,
          "No other of the plans that were looked at is both faster and smaller than one of these.",
          front_content,
          nullptr,
          nullptr,
          add_front};
}

}  // namespace dovetail::reports
