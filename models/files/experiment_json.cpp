// SPDX-License-Identifier: Apache-2.0
#include "models/files/experiment_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/interference_json.hpp"
#include "models/files/read_fields.hpp"
#include "models/plan/communication.hpp"
#include "models/price/calibration.hpp"
#include "models/question/fields.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

Json fit_json(const Fit& fit) {
  return {{"points", fit.points.size()},
          {"smallest", fit.points.front().size},
          {"largest", fit.points.back().size},
          {"r2", fit.r2},
          {"worst_error", worst_error(fit)}};
}

Json provenance_json(const Provenance& provenance) {
  Json json{{"origin", name_in(origin_names, provenance.origin)}, {"source", provenance.source}};
  if (provenance.disturbed) json["disturbed"] = true;
  if (provenance.within > 0) json["within"] = provenance.within;
  if (provenance.fit && !provenance.fit->points.empty()) json["fit"] = fit_json(*provenance.fit);
  return json;
}

template <class PerUnit>
void add_outside(const Outside<PerUnit>& outside, const char* beta, Json& json) {
  if (outside.alpha) json["outside"]["alpha_s"] = outside.alpha->value();
  if (outside.beta) json["outside"][beta] = outside.beta->value();
}

Json collective_json(const CollectiveCost& cost) {
  Json json{{"collective", name_in(collective_names, cost.collective)},
            {"link", name_in(link_kind_names, cost.link)},
            {"gpus", cost.gpus}};
  if (cost.members_per_node > 0) json["members_per_node"] = cost.members_per_node;
  json["alpha_s"] = cost.alpha.value();
  if (cost.latency)
    json["latency"] = {{"hops", name_in(hops_names, cost.latency->hops)},
                       {"inside_s", cost.latency->inside.value()},
                       {"between_s", cost.latency->between.value()}};
  json["beta_s_per_byte"] = cost.beta.value();
  add_outside(cost.outside, "beta_s_per_byte", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json gemm_json(const GemmCost& cost) {
  Json json{{"dtype", name_in(dtype_names, cost.dtype)},
            {"alpha_s", cost.alpha.value()},
            {"beta_s_per_flop", cost.beta.value()}};
  add_outside(cost.outside, "beta_s_per_flop", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json memory_json(const MemoryCost& cost) {
  Json json{{"alpha_s", cost.alpha.value()}, {"beta_s_per_byte", cost.beta.value()}};
  add_outside(cost.outside, "beta_s_per_byte", json);
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

// Without its points, which would swell every result.
Json table_json(const KernelTable& table) {
  Json json{{"kernel", name_in(kernel_kind_names, table.kind())},
            {"dtype", name_in(dtype_names, table.dtype())},
            {"shapes", table.points().size()},
            {"provenance", provenance_json(table.provenance)}};
  if (table.error.rows > 0)
    json["held_back"] = {{"rows", table.error.rows}, {"mean", table.error.mean}, {"ninetieth", table.error.ninetieth}};
  return json;
}

Json kernel_json(const KernelCost& cost) {
  Json json{{"op", name_in(op_kind_names, cost.op)},
            {"phase", name_in(phase_names, cost.phase)},
            {"alpha_s", cost.alpha.value()}};
  if (cost.rates)
    json["rates"] = to_json(*cost.rates);
  else
    json["factor"] = cost.factor;
  json["provenance"] = provenance_json(cost.provenance);
  return json;
}

Json interference_json(const Interference& interference) {
  Json json = to_json(interference);
  json["provenance"] = provenance_json(interference.provenance);
  return json;
}

Json message_json(const MessageCost& cost) {
  Json json{{"link", name_in(link_kind_names, cost.link)},
            {"protocol", name_in(protocol_names, cost.protocol)},
            {"per_message_s", cost.per_message.value()},
            {"bandwidth_bytes_per_s", cost.bandwidth.value()},
            {"provenance", provenance_json(cost.provenance)}};
  if (cost.connections > 0) json["connections"] = cost.connections;
  if (cost.peer_bandwidth > BytesPerSecond(0)) json["peer_bandwidth_bytes_per_s"] = cost.peer_bandwidth.value();
  return json;
}

// Times are written as the points that lines are drawn through, with their unit as in input files.
Json curve_json(const TimeCurve& curve) {
  const auto text = [](Seconds time) { return fmt::format("{} s", time.value()); };
  const std::vector<ProfilePoint>& points = curve.points();
  if (curve.fitted())
    return {{"alpha", text(points[0].time)}, {"beta", text((points[1].time - points[0].time) / points[1].size)}};
  Json list = Json::array();
  for (const ProfilePoint& point : points) list.push_back({{"size", point.size}, {"time", text(point.time)}});
  return {{"points", std::move(list)}};
}

Json profile_json(const TimeProfile& profile) {
  Json json{{"forward", curve_json(profile.forward)}};
  if (!profile.backward.empty()) json["backward"] = curve_json(profile.backward);
  json["provenance"] = provenance_json(profile.provenance);
  return json;
}

template <class T>
Json list_json(const std::vector<T>& items, Json (*item_json)(const T&)) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(item_json(item));
  return list;
}

}  // namespace

namespace {

template <class T>
Json fields_json(const T& object) {
  return write_fields(fields_of<T>(), &object);
}

}  // namespace

Json to_json(const Cluster& cluster) {
  return fields_json(cluster);
}

Json to_json(const Model& model) {
  Json json = fields_json(model);
  if (model.expert_profile.given()) json["expert_profile"] = profile_json(model.expert_profile);
  if (model.gate_profile.given()) json["gate_profile"] = profile_json(model.gate_profile);
  return json;
}

Json to_json(const Calibration& calibration) {
  Json json{{"name", calibration.name},
            {"source", calibration.source},
            {"collectives", list_json(calibration.collectives, collective_json)},
            {"gemms", list_json(calibration.gemms, gemm_json)},
            {"memory", memory_json(calibration.memory)},
            {"interference", list_json(calibration.interference, interference_json)}};
  if (calibration.host)
    json["host"] = {{"launch_s", calibration.host->launch.value()},
                    {"pace", calibration.host->pace},
                    {"provenance", provenance_json(calibration.host->provenance)}};
  if (calibration.strided_copy) json["strided_copy"] = memory_json(*calibration.strided_copy);
  if (const auto& cache = calibration.l2_cache)
    json["l2_cache"] = {{"bandwidth_bytes_per_s", cache->bandwidth.value()},
                        {"provenance", provenance_json(cache->provenance)}};
  if (!calibration.tables.empty()) json["tables"] = list_json(calibration.tables, table_json);
  if (!calibration.messages.empty()) json["messages"] = list_json(calibration.messages, message_json);
  if (!calibration.kernels.empty()) json["kernels"] = list_json(calibration.kernels, kernel_json);
  if (calibration.copy) json["copy"] = memory_json(*calibration.copy);
  return json;
}

Json to_json(const WorkRates& rates) {
  return {{"products_s_per_flop", rates.products.value()},
          {"attention_s_per_flop", rates.attention.value()},
          {"outputs_s_per_byte", rates.outputs.value()},
          {"memory_s_per_byte", rates.memory.value()}};
}

Json to_json(const Workload& workload) {
  Json json = fields_json(workload);
  if (workload.routing.kind == RoutingKind::Trace) json["routing"]["layers"] = workload.routing.layers;
  return json;
}

Json to_json(const Parallelism& parallelism) {
  return fields_json(parallelism);
}

Json to_json(const Experiment& experiment) {
  if (!experiment.extensions.empty())
    throw InputError(
        fmt::format("{}: a file cannot hold what a program has of its own", experiment.extensions.names()));
  Json workload = to_json(experiment.workload);
  if (experiment.model.dense())
    for (const Field& field : fields_of<Workload>().fields)
      if (field.of_experts) workload.erase(field.name);
  Json json{{"cluster", to_json(experiment.cluster)},          {"model", to_json(experiment.model)},
            {"calibration", to_json(*experiment.calibration)}, {"workload", std::move(workload)},
            {"parallelism", to_json(experiment.parallelism)},  {"overlap", name_in(overlap_names, experiment.overlap)}};
  const TrainingFramework& framework = experiment.framework;
  if (!framework.name.empty()) json["framework"] = {{"name", framework.name}, {"source", framework.source}};
  return json;
}

}  // namespace dovetail
