// SPDX-License-Identifier: Apache-2.0
#include "reports/data/tuning_report.hpp"

#include <fmt/format.h>

#include <ostream>

#include "models/base/names.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/plan_json.hpp"
#include "reports/data/explanation_json.hpp"
#include "reports/data/json_values.hpp"
#include "reports/text/csv.hpp"
#include "reports/text/tuning_table.hpp"

namespace dovetail::reports {
namespace {

using Json = nlohmann::ordered_json;

Json range_json(const StepRange& range) {
  Json costs = Json::array();
  for (const CostInfluence& cost : range.costs)
    costs.push_back({{"cost", cost.cost},
                     {"origin", name_in(origin_names, cost.origin)},
                     {"within", number(cost.within)},
                     {"fast", number(cost.fast)},
                     {"slow", number(cost.slow)}});
  return {{"low", number(range.low)}, {"high", number(range.high)}, {"draws", range.draws.size()}, {"costs", costs}};
}

Json plan_json(const TunedPlan& plan, Bytes memory) {
  Json peaks = Json::array();
  for (const Bytes peak : plan.stage_peaks) peaks.push_back(number(peak));
  const Throughput& t = plan.throughput;
  return {{"system", plan.system},
          {"parallelism", dovetail::to_json(plan.groups)},
          {"micro_batch", plan.micro_batch},
          {"plan", dovetail::to_json(plan.plan)},
          {"step_s", number(plan.step)},
          {"tokens_per_second", number(t.tokens_per_second)},
          {"tokens_per_second_of_gpu", number(t.of_gpu)},
          {"model_flops_per_second_of_gpu", number(t.model_flops.value())},
          {"mfu", number(t.mfu)},
          {"exposed_share", number(t.exposed)},
          {"waiting_share", number(t.waiting)},
          {"launch_bound_s", number(plan.launch_bound)},
          {"peak_bytes", number(plan.peak())},
          {"stage_peak_bytes", peaks},
          {"free_bytes", number(memory - plan.peak())},
          {"tied", plan.tied},
          {"range", plan.range ? range_json(*plan.range) : Json(nullptr)}};
}

Json inputs_json(const Tuning& tuning) {
  Json inputs = dovetail::to_json(tuning.experiment);
  inputs.erase("parallelism");
  inputs["workload"].erase("batch");
  inputs["global_batch"] = tuning.global_batch;
  inputs["usable_bytes"] = number(tuning.limit);
  inputs["sha256"] = tuning.provenance.input_sha256;
  return inputs;
}

Json confirmation_json(const Confirmation& confirmation) {
  Json plans = Json::array();
  for (const ConfirmedPlan& plan : confirmation.plans)
    plans.push_back({{"rank", plan.rank}, {"predicted_s", number(plan.modelled)}, {"confirmed_s", number(plan.step)}});
  return {{"by", confirmation.by},
          {"result_kind", confirmation.in_small ? "measured" : "simulated"},
          {"in_small", confirmation.in_small},
          {"plans", std::move(plans)},
          {"refused", confirmation.refused}};
}

Json framework_json(const ForFramework& framework, Bytes memory) {
  Json missing = Json::array();
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
          {"any", framework.any ? plan_json(*framework.any, memory) : Json(nullptr)},
          {"cannot", framework.cannot},
          {"missing", std::move(missing)},
          {"seconds", number(framework.time)}};
}

Json floor_json(const TuningFloor& floor) {
  return {{"parallelism", dovetail::to_json(floor.groups)},
          {"micro_batch", floor.micro_batch},
          {"step_s", number(floor.step)},
          {"layers_s", number(floor.layers)},
          {"again_s", number(floor.again)},
          {"filling_s", number(floor.filling)}};
}

Json proof_json(const TuningProof& p) {
  return {{"layouts", p.layouts},
          {"too_large", p.too_large},
          {"slower", p.slower},
          {"estimated", p.estimated},
          {"stages", p.stages},
          {"predicted", p.predicted},
          {"bound_s", number(p.bound)},
          {"seconds", number(p.time)},
          {"lowest", floor_json(p.lowest)},
          {"own", p.own ? floor_json(*p.own) : Json(nullptr)}};
}

constexpr const char* columns =
    "pp,virtual_stages,mp,dp,ep,esp,edp,micro_batch,micro_batches,zero,step_s,tokens_per_second_of_gpu,mfu,peak_bytes,"
    "exposed_share,waiting_share,tied";

// `names` begin the line, with the comma after them.
void write_line(std::ostream& out, const std::string& names, const TunedPlan& plan) {
  const Parallelism& p = plan.groups;
  out << names
      << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", p.pp, plan.plan.virtual_stages, p.mp, p.dp,
                     p.ep, p.esp, p.edp, plan.micro_batch, plan.plan.micro_batches, plan.plan.zero,
                     csv_number(plan.step.value()), csv_number(plan.throughput.of_gpu), csv_number(plan.throughput.mfu),
                     csv_number(plan.peak().value()), csv_number(plan.throughput.exposed),
                     csv_number(plan.throughput.waiting), plan.tied ? 1 : 0);
}

}  // namespace

Json to_json(const Tuning& tuning) {
  const Bytes memory = tuning.experiment.cluster.device.memory;
  Json best = Json::array(), systems = Json::array(), front = Json::array(), refused = Json::array();
  for (const TunedPlan& plan : tuning.best) best.push_back(plan_json(plan, memory));
  for (const TunedSystem& system : tuning.systems)
    systems.push_back({{"own", plan_json(system.own, memory)}, {"on_best_layout_s", number(system.on_winners)}});
  for (const TunedPlan& plan : tuning.front) front.push_back(plan_json(plan, memory));
  for (const RefusedSystem& each : tuning.refused)
    refused.push_back({{"system", each.system}, {"reason", each.reason}});
  return {
      {"schema_version", tuning_schema_version},
      {"kind", "tuning"},
      {"result_kind", "predicted"},
      {"provenance", provenance_json(tuning.provenance)},
      {"inputs", inputs_json(tuning)},
      {"gpu_hours_of_trillion_tokens", number(gpu_hours(tuning.best.front(), trillion))},
      {"megawatt_hours_of_trillion_tokens",
       tuning.gpu_watts > 0 ? number(megawatt_hours(tuning.best.front(), trillion, tuning.gpu_watts)) : Json(nullptr)},
      {"notes", tuning.notes},
      {"explanation", tuning.explanation ? explanation_json(*tuning.explanation) : Json(nullptr)},
      {"confirmation", tuning.confirmation ? confirmation_json(*tuning.confirmation) : Json(nullptr)},
      {"framework", tuning.framework ? framework_json(*tuning.framework, memory) : Json(nullptr)},
      {"best", std::move(best)},
      {"systems", std::move(systems)},
      {"refused", std::move(refused)},
      {"front", std::move(front)},
      {"proof", proof_json(tuning.proof)}};
}

void write_json(std::ostream& out, const Tuning& tuning) {
  out << to_json(tuning).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json to_json(const TuningCurve& curve) {
  Json points = Json::array();
  for (const TuningPoint& point : curve.points) {
    Json json{{"cluster", point.cluster}, {"gpus", point.gpus}};
    if (point.best) {
      json["best"] = plan_json(*point.best, point.memory);
      json["gpu_hours_of_trillion_tokens"] = number(gpu_hours(*point.best, trillion));
      if (curve.gpu_watts > 0)
        json["megawatt_hours_of_trillion_tokens"] = number(megawatt_hours(*point.best, trillion, curve.gpu_watts));
    } else {
      json["refusal"] = point.refusal;
    }
    points.push_back(std::move(json));
  }
  return {{"schema_version", tuning_schema_version},
          {"kind", "tuning_curve"},
          {"result_kind", "predicted"},
          {"provenance", provenance_json(curve.provenance)},
          {"sha256", curve.provenance.input_sha256},
          {"model", curve.model},
          {"global_batch", curve.global_batch},
          {"sequence", curve.sequence},
          {"workload", curve.workload},
          {"gpu_watts", curve.gpu_watts > 0 ? number(curve.gpu_watts) : Json(nullptr)},
          {"framework", curve.framework.empty() ? Json(nullptr) : Json(curve.framework)},
          {"notes", curve.notes},
          {"points", std::move(points)}};
}

void write_json(std::ostream& out, const TuningCurve& curve) {
  out << to_json(curve).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_csv(std::ostream& out, const Tuning& tuning) {
  out << "role,system," << columns << '\n';
  const auto write = [&](const char* role, const TunedPlan& plan) {
    write_line(out, fmt::format("{},{},", role, csv_text(plan.system)), plan);
  };
  for (const TunedPlan& plan : tuning.best) write("best", plan);
  for (const TunedSystem& system : tuning.systems) write("system", system.own);
}

void write_csv(std::ostream& out, const TuningCurve& curve) {
  out << "cluster,gpus,gpu_hours_of_trillion_tokens," << columns << '\n';
  for (const TuningPoint& point : curve.points)
    if (point.best)
      write_line(
          out,
          fmt::format("{},{},{},", csv_text(point.cluster), point.gpus, csv_number(gpu_hours(*point.best, trillion))),
          *point.best);
}

}  // namespace dovetail::reports
