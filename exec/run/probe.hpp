// SPDX-License-Identifier: Apache-2.0
// The name of a probe, and the point that it leaves.
#pragma once
#include <string>

#include "exec/run/meter.hpp"
#include "models/results/device_point.hpp"

namespace dovetail::exec {

std::string name_of(const Probe& probe);  // without commas, as cells of CSV have none

// Without times. Only for work of one device: InternalError for collectives, which need several.
DevicePoint point_of(const Probe& probe);
Probe probe_of(const DevicePoint& point);

}  // namespace dovetail::exec
