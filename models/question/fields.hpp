// SPDX-License-Identifier: Apache-2.0
// The tables of fields of a question. A field of one of these structs stands in its table, and nowhere else by name
// but where it is used.
#pragma once
#include "models/base/fields.hpp"
#include "models/question/cluster.hpp"
#include "models/question/model.hpp"
#include "models/question/parallelism.hpp"
#include "models/question/speed_event.hpp"
#include "models/question/workload.hpp"
#include "models/question/workload_defaults.hpp"

namespace dovetail {

inline constexpr int most_experts = 65'536, most_head_size = 65'536, most_gpus = 1 << 20;

// workload_fields.cpp
template <>
const FieldTable& fields_of<Workload>();
template <>
const FieldTable& fields_of<Gate>();
template <>
const FieldTable& fields_of<RoutingModel>();
template <>
const FieldTable& fields_of<RouterLoad>();

// model_fields.cpp
template <>
const FieldTable& fields_of<Model>();
template <>
const FieldTable& fields_of<Attention>();
template <>
const FieldTable& fields_of<PositionIndex>();
template <>
const FieldTable& fields_of<HeadSizes>();
template <>
const FieldTable& fields_of<Recurrence>();
template <>
const FieldTable& fields_of<SharedExpertSizes>();
template <>
const FieldTable& fields_of<Router>();

// cluster_fields.cpp
template <>
const FieldTable& fields_of<Cluster>();
template <>
const FieldTable& fields_of<Device>();
template <>
const FieldTable& fields_of<NetworkDescription>();
template <>
const FieldTable& fields_of<FabricLevel>();
template <>
const FieldTable& fields_of<SlowPart>();
template <>
const FieldTable& fields_of<WorkloadDefaults>();

// A new workload with what a cluster gives.
Workload workload_of(const WorkloadDefaults& defaults);

// parallelism_fields.cpp
template <>
const FieldTable& fields_of<Parallelism>();
template <>
const FieldTable& fields_of<SpeedEvent>();

}  // namespace dovetail
