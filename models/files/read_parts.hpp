// SPDX-License-Identifier: Apache-2.0
// From checked JSON to the parts of an experiment. A reader may stand anywhere in a file: a part may be written inside
// an experiment. Each throws InputError at the place of what is wrong.
#pragma once
#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/files/read_fields.hpp"
#include "models/plan/knob_table.hpp"
#include "models/price/host_profile.hpp"
#include "models/question/fields.hpp"

namespace dovetail {

Cluster read_cluster(const JsonReader& json, WorkloadDefaults& defaults);
Provenance read_provenance(const JsonReader& json);
Model read_model(const JsonReader& json);
Model read_model(const JsonReader& json, FieldForm form);
Calibration read_calibration(const JsonReader& json);
// The deeds of a framework in a step, and the work of its host, which is a cost.
struct FrameworkParts {
  TrainingFramework framework;
  HostProfile host;
};
FrameworkParts read_framework(const JsonReader& json);
System read_system(const JsonReader& json);
// Reads the tables of a workload's trace that are written out in it.
void read_routing_layers(const JsonReader& workload, RoutingModel& routing);
std::vector<LoadTable> read_load_tables(const JsonReader& json);

// Sets the knobs that are given, leaves the others.
void read_plan(const JsonReader& json, Plan& plan, std::span<const Knob> table = knobs());

}  // namespace dovetail
