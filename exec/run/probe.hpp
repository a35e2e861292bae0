// What a probe is called, and the point that it leaves.
#pragma once
#include <string>

#include "exec/run/meter.hpp"
#include "models/results/device_point.hpp"

namespace dovetail::exec {

std::string name_of(const Probe& probe);   // without commas, as cells of CSV have none
DevicePoint point_of(const Probe& probe);  // without times
Probe probe_of(const DevicePoint& point);  // InternalError for collectives, whose kind a point does not tell

}  // namespace dovetail::exec
