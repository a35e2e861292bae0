// SPDX-License-Identifier: Apache-2.0
// The best plan of each cluster, or of each size of one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/data/json_values.hpp"
#include "reports/sections/cells.hpp"
#include "reports/sections/result_json.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

SectionRow row_of(const TuningPoint& point, double gpu_watts) {
  const SystemResult& plan = *point.best;
  const Throughput& t = plan.throughput;
  std::vector<std::string> cells = joined(
      joined({printable(point.cluster, 20), std::to_string(point.gpus)}, layout_cells(plan)),
      {significant(1e3 * plan.metrics.makespan.value()), range_text(plan, 0), significant(t.tokens_per_second / 1e6),
       significant(t.of_gpu), t.mfu ? fixed(100 * *t.mfu, 1) : "-", significant(gpu_hours(plan, trillion))});
  if (gpu_watts > 0) cells.push_back(significant(megawatt_hours(plan, trillion, gpu_watts)));
  return {std::move(cells)};
}

SectionContent curve_content(const Report& report, Detail) {
  SectionContent content;
  if (!report.curve) return content;
  const TuningCurve& curve = *report.curve;
  content.headings =
      joined(joined({"cluster", "GPUs"}, layout_headings()),
             {"step\nms", "90 % range\nms", "M tok-\nens/s", "tokens/s\na GPU", "MFU\n%", "GPU-hours\nper 1e12"});
  if (curve.gpu_watts > 0) content.headings.emplace_back("MWh\nper 1e12");
  for (const TuningPoint& point : curve.points)
    if (point.best)
      content.rows.push_back(row_of(point, curve.gpu_watts));
    else
      content.lines.push_back({fmt::format("{}, {} GPUs: {}", point.cluster, point.gpus, point.refusal)});
  return content;
}

void add_curve(const Report& report, nlohmann::ordered_json& file) {
  if (!report.curve) return;
  const TuningCurve& curve = *report.curve;
  auto points = nlohmann::ordered_json::array();
  for (const TuningPoint& point : curve.points) {
    nlohmann::ordered_json json{{"cluster", point.cluster}, {"gpus", point.gpus}};
    if (point.best) {
      json["best"] = result_json(report, *point.best);
      json["gpu_hours_of_trillion_tokens"] = number(gpu_hours(*point.best, trillion));
      if (curve.gpu_watts > 0)
        json["megawatt_hours_of_trillion_tokens"] = number(megawatt_hours(*point.best, trillion, curve.gpu_watts));
    } else {
      json["refusal"] = point.refusal;
    }
    points.push_back(std::move(json));
  }
  file["model"] = curve.model;
  file["global_batch"] = curve.global_batch;
  file["sequence"] = curve.sequence;
  file["workload"] = curve.workload;
  file["gpu_watts"] = curve.gpu_watts > 0 ? number(curve.gpu_watts) : nlohmann::ordered_json(nullptr);
  file["framework"] =
      curve.framework.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(curve.framework);
  file["points"] = std::move(points);
}

}  // namespace

Section curve() {
  return {"the best plan of each cluster", Titled::Always, "", curve_content, nullptr, nullptr, add_curve};
}

}  // namespace dovetail::reports
