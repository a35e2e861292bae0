// SPDX-License-Identifier: Apache-2.0
// The tables of fields of costs.
#pragma once
#include "models/base/fields.hpp"
#include "models/price/calibration.hpp"

namespace dovetail {

// All but its tables of kernels, which have a form of their own.
template <>
const FieldTable& fields_of<Calibration>();
template <>
const FieldTable& fields_of<Hardware>();
template <>
const FieldTable& fields_of<CollectiveCost>();
template <>
const FieldTable& fields_of<Latency>();
template <>
const FieldTable& fields_of<GemmCost>();
template <>
const FieldTable& fields_of<TrainingKernel>();
template <>
const FieldTable& fields_of<SustainedRate>();
template <>
const FieldTable& fields_of<MemoryCost>();
template <>
const FieldTable& fields_of<CacheRate>();
template <>
const FieldTable& fields_of<MessageCost>();
template <>
const FieldTable& fields_of<KernelCost>();
template <>
const FieldTable& fields_of<WorkRates>();
template <>
const FieldTable& fields_of<Interference>();
template <>
const FieldTable& fields_of<HostCost>();
template <>
const FieldTable& fields_of<Outside<SecondsPerByte>>();
template <>
const FieldTable& fields_of<Outside<SecondsPerFlop>>();
template <>
const FieldTable& fields_of<Provenance>();
template <>
const FieldTable& fields_of<Fit>();
template <>
const FieldTable& fields_of<FitPoint>();

}  // namespace dovetail
