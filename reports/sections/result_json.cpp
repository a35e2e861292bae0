// SPDX-License-Identifier: Apache-2.0
#include "reports/sections/result_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "models/results/ranking.hpp"
#include "reports/data/json_values.hpp"
#include "reports/sections/section.hpp"
#include "reports/sections/switches.hpp"
#include "reports/text/link_use.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Json proof_json(const Proof& proof) {
  return {{"space", proof.space},      {"points", number(proof.points)}, {"predicted", proof.predicted},
          {"refused", proof.refused},  {"best_s", number(proof.best)},   {"bound_s", number(proof.bound)},
          {"optimal", proof.optimal()}};
}

Json front_json(const std::vector<FrontPoint>& front) {
  Json list = Json::array();
  for (const FrontPoint& point : front)
    list.push_back({{"step_s", number(point.time)},
                    {"peak_bytes", number(point.memory)},
                    {"plan", dovetail::to_json(point.plan)}});
  return list;
}

Json planner_json(const PlannerReport& planner) {
  return {{"name", planner.name},
          {"reason", planner.reason},
          {"choices", planner.choices},
          {"evaluations", planner.evaluations},
          {"seconds", number(planner.time)},
          {"regret", number(planner.regret)},
          {"runner_up", planner.runner_up ? Json(*planner.runner_up) : Json(nullptr)},
          {"proof", planner.proof ? proof_json(*planner.proof) : Json(nullptr)},
          {"front", front_json(planner.front)}};
}

Json streams_json(const Metrics& metrics) {
  Json list = Json::array();
  for (const StreamUse& stream : metrics.streams)
    list.push_back({{"rank_class", stream.rank_class}, {"name", stream.name}, {"busy_s", number(stream.busy)}});
  return list;
}

Json links_json(const Experiment& experiment, const SystemResult& result) {
  Json list = Json::array();
  if (result.schedule == nullptr) return list;
  for (const LinkUse& use : link_use(experiment, *result.schedule, result.timeline))
    list.push_back({{"rank_class", use.rank_class},
                    {"name", name_in(link_kind_names, use.link)},
                    {"bytes", number(use.bytes)},
                    {"busy_s", number(use.busy)}});
  return list;
}

Json network_json(const SystemResult& result) {
  Json list = Json::array();
  for (const NetworkUse& use : result.network)
    list.push_back({{"link", use.link},
                    {"links", use.links},
                    {"bandwidth_bytes_per_s", number(use.bandwidth.value())},
                    {"bytes", number(use.bytes)},
                    {"utilisation", number(use.utilisation(result.metrics.makespan))}});
  return list;
}

Json losses_json(const std::vector<double>& losses) {
  Json list = Json::array();
  for (const double loss : losses) list.push_back(number(loss));
  return list;
}

// Without a reference there is nothing to differ from.
Json training_json(const TrainingReport& training) {
  const bool compared = !training.reference_losses.empty();
  return {{"losses", losses_json(training.losses)},
          {"reference_losses", compared ? losses_json(training.reference_losses) : Json(nullptr)},
          {"loss_error", compared ? number(training.loss_error) : Json(nullptr)},
          {"weight_error", compared ? number(training.weight_error) : Json(nullptr)},
          {"tolerance", number(training.tolerance)},
          {"ok", training.ok}};
}

Json run_json(const RunReport& run) {
  Json json{{"device", run.device},
            {"transport", run.transport},
            {"ranks", run.ranks},
            {"dilation", number(run.dilation)},
            {"emulated_share", number(run.emulated_share)},
            {"overruns", run.overruns},
            {"stopped_by", run.stopped_by},
            {"clock_mhz", run.clock.mhz > 0 ? number(run.clock.mhz) : Json(nullptr)},
            {"power_w", run.clock.watts > 0 ? number(run.clock.watts) : Json(nullptr)},
            {"dropped", run.dropped},
            {"numerics",
             {{"ok", run.numerics_checked ? Json(run.numerics_ok) : Json(nullptr)},
              {"output_error", run.numerics_checked ? number(run.output_error) : Json(nullptr)},
              {"gradient_error", run.numerics_checked ? number(run.gradient_error) : Json(nullptr)}}},
            {"training", run.training ? training_json(*run.training) : Json(nullptr)}};
  if (run.switching) json["switching"] = switching_json(*run.switching);
  return json;
}

Json range_json(const SystemResult& result) {
  if (!result.range) return nullptr;
  const Seconds step = result.metrics.makespan;
  return Json::array({number(result.range->low * step), number(result.range->high * step)});
}

Json peaks_json(const SystemResult& result) {
  Json list = Json::array();
  for (const Bytes peak : result.stage_peaks) list.push_back(number(peak));
  return list;
}

bool is_tied(const Report& report, const SystemResult& result) {
  const std::vector<const SystemResult*> tied = tied_fastest(report);
  return std::ranges::find(tied, &result) != tied.end();
}

}  // namespace

Json result_json(const Report& report, const SystemResult& result) {
  const SummaryRow row = summarize(report, result);
  const bool whole = result.schedule != nullptr;  // else nothing but the peak is known of its memory
  const Metrics& metrics = result.metrics;
  Json json = {{"system", result.system},
               {"parallelism", dovetail::to_json(result.groups)},
               {"micro_batch", result.micro_batch},
               {"plan", dovetail::to_json(result.plan)},
               {"planner", planner_json(result.planner)},
               {"backend", result.backend},
               {"kind", name_in(result_kind_names, result.timeline.kind)},
               {"makespan_s", number(metrics.makespan)},
               {"forward_s", number(row.forward)},
               {"backward_s", number(row.backward)},
               {"iteration_s", number(metrics.makespan)},
               {"interval_s", range_json(result)},
               {"draws", result.range ? result.range->draws.size() : 0},
               {"speedup", number(row.speedup)},
               {"exposed_communication_s", number(metrics.exposed_communication)},
               {"launch_bound_s", number(metrics.launch_bound)},
               {"lower_bound_s", number(result.lower_bound)},
               {"plan_bound_s", number(result.plan_bound)},
               {"peak_bytes", number(result.memory.peak)},
               {"persistent_bytes", whole ? number(result.memory.persistent) : Json(nullptr)},
               {"arena_bytes", whole ? number(result.memory.arena) : Json(nullptr)},
               {"pinned_bytes", whole ? number(result.memory.pinned) : Json(nullptr)},
               {"stage_peak_bytes", peaks_json(result)},
               {"tied", is_tied(report, result)},
               {"feasible", result.feasible},
               {"missing_bytes", result.feasible ? Json(nullptr) : number(result.missing)},
               {"streams", streams_json(metrics)},
               {"links", links_json(report.experiment, result)}};
  if (result.schedule && result.schedule->groups.repeats_tokens()) json["sequence_parallel"] = false;
  if (report.experiment.cluster.network) json["network"] = network_json(result);
  for (const Section& section : sections())
    if (section.member != nullptr) json[section.member] = section.json(result);
  const bool ran = result.run.has_value();
  json["measured_over_modelled"] = number(row.measured_ratio);
  json["ci95_s"] = ran ? Json::array({number(result.run->ci95_low), number(result.run->ci95_high)}) : Json(nullptr);
  json["samples_s"] = ran ? list_json(result.run->samples) : Json(nullptr);
  json["run"] = ran ? run_json(*result.run) : Json(nullptr);
  return json;
}

}  // namespace dovetail::reports
