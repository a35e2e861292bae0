// What a probe is called, and the point that it leaves.
#pragma once
#include <string>

#include "exec/run/meter.hpp"
#include "models/results/device_point.hpp"

namespace dovetail::exec {

std::string name_of(const Probe& probe);  // without commas, as cells of CSV have none

// Without times. Of devices' work only: InternalError for collectives, which more than one of them does.
DevicePoint point_of(const Probe& probe);
Probe probe_of(const DevicePoint& point);

}  // namespace dovetail::exec
