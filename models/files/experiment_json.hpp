// SPDX-License-Identifier: Apache-2.0
// The parts of an experiment as JSON. Quantities are in base units (bytes, seconds, flops) with the unit in
// the key, unlike input files, whose strings carry their units.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/price/work_rates.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

nlohmann::ordered_json to_json(const Cluster& cluster);
nlohmann::ordered_json to_json(const Model& model);
nlohmann::ordered_json to_json(const Calibration& calibration);
nlohmann::ordered_json to_json(const Workload& workload);
nlohmann::ordered_json to_json(const WorkRates& rates);
nlohmann::ordered_json to_json(const Parallelism& parallelism);

// An object of the five: cluster, model, calibration, workload, parallelism.
nlohmann::ordered_json to_json(const Experiment& experiment);

}  // namespace dovetail
