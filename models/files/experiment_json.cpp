// SPDX-License-Identifier: Apache-2.0
#include "models/files/experiment_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/files/read_fields.hpp"
#include "models/plan/communication.hpp"
#include "models/price/calibration_fields.hpp"
#include "models/question/fields.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json fields_json(const T& object) {
  return write_fields(fields_of<T>(), &object);
}

// Without its points, which would swell every result.
Json table_json(const KernelTable& table) {
  Json json{{"kernel", name_in(kernel_kind_names, table.kind())},
            {"dtype", name_in(dtype_names, table.dtype())},
            {"shapes", table.points().size()},
            {"provenance", fields_json(table.provenance)}};
  if (table.error.rows > 0)
    json["held_back"] = {{"rows", table.error.rows}, {"mean", table.error.mean}, {"ninetieth", table.error.ninetieth}};
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
  json["provenance"] = fields_json(profile.provenance);
  return json;
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
  Json json = fields_json(calibration);
  for (const KernelTable& table : calibration.tables) json["tables"].push_back(table_json(table));
  return json;
}

Json to_json(const WorkRates& rates) {
  return fields_json(rates);
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
