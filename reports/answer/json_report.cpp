// SPDX-License-Identifier: Apache-2.0
#include "reports/answer/json_report.hpp"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "models/files/experiment_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/sections/result_json.hpp"
#include "reports/sections/section.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Json inputs_json(const Report& report) {
  Json inputs = dovetail::to_json(report.experiment);
  if (report.tuning) {
    inputs.erase("parallelism");
    inputs["workload"].erase("batch");
    inputs["global_batch"] = report.tuning->global_batch;
    inputs["usable_bytes"] = number(report.tuning->limit);
  }
  inputs["sha256"] = report.provenance.input_sha256;
  return inputs;
}

Json routing_json(const RoutingFigures& routing) {
  return {{"capacity_rows", routing.capacity_rows},
          {"choices", routing.summary.choices},
          {"dropped", routing.summary.dropped},
          {"largest_load", routing.summary.largest},
          {"imbalance", number(routing.summary.imbalance)}};
}

std::string kind_of(const Report& report) {
  return report.curve ? "tuning_curve" : report.tuning ? "tuning" : report.kind;
}

// Adds the price of training with the best plan.
void add_costs(const Report& report, Json& json) {
  const SystemResult& best = report.results.front();
  const double watts = report.tuning->gpu_watts;
  json["gpu_hours_of_trillion_tokens"] = number(gpu_hours(best, trillion));
  json["megawatt_hours_of_trillion_tokens"] = watts > 0 ? number(megawatt_hours(best, trillion, watts)) : Json(nullptr);
}

// Files of a search over layouts call the results what they are.
void add_results(const Report& report, Json& json) {
  Json& list = json[report.tuning ? "best" : "results"] = Json::array();
  for (const SystemResult& result : report.results) list.push_back(result_json(report, result));
  if (report.tuning && !report.results.empty()) add_costs(report, json);
  if (!report.tuning && report.refused.empty()) return;
  Json& refused = json["refused"] = Json::array();
  for (const RefusedSystem& each : report.refused)
    refused.push_back({{"system", each.system}, {"reason", each.reason}});
}

}  // namespace

Json to_json(const Report& report) {
  Json json = {{"schema_version", report.tuning || report.curve ? tuning_schema_version : result_schema_version},
               {"kind", kind_of(report)},
               {"provenance", provenance_json(report.provenance)}};
  if (report.curve)
    json["sha256"] = report.provenance.input_sha256;
  else
    json["inputs"] = inputs_json(report);
  if (!report.tuning && !report.curve) json["routing"] = routing_json(report.routing);
  json["notes"] = report.notes;
  if (!report.curve) add_results(report, json);
  for (const Section& section : sections())
    if (section.add_json != nullptr) section.add_json(report, json);
  return json;
}

void write_json(std::ostream& out, const Report& report) {
  out << to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace dovetail::reports
