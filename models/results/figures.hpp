// SPDX-License-Identifier: Apache-2.0
// Figures of a report that follow from its question and its schedules: computed here, so that reports only show them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/question/expert_loads.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// The traffic of the whole step over the links of a class.
struct NetworkUse {
  std::string link;  // "nic up"; of several classes of links those after the first are "nic up#1", ...
  double links = 1;
  BytesPerSecond bandwidth;  // of each
  Bytes bytes;               // over all of them
  double utilisation(Seconds step) const { return bytes / (links * bandwidth * step); }
};
// `schedule` is split by class. Link classes that carry nothing are left out; empty without a described network.
std::vector<NetworkUse> network_use(const Experiment& experiment, const Schedule& schedule);

struct RoutingFigures {
  std::int64_t capacity_rows = 0;  // of an expert, from one rank and one micro-batch
  RoutingSummary summary;
};

// The name of the calibration that the experiment's costs are from.
std::string calibration_name(const Experiment& experiment);

}  // namespace dovetail
