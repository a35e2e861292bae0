// SPDX-License-Identifier: Apache-2.0
// The files between planner and executor: a priced schedule in, a timeline out. Public and versioned, so that
// any executor can be measured the same way. Times are seconds, sizes elements and bytes.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/results/result.hpp"

namespace dovetail {

// Raised when an older reader would misread, or a newer one would miss something.
inline constexpr int schedule_file_version = 4, timeline_file_version = 2;

// Everything that an executor needs: the question, the plan, and the ops that follow from both, with their modelled
// times.
struct ScheduleFile {
  Experiment experiment;  // of the cluster the sizes alone; no calibration and no events
  Plan plan;
  PricedSchedule priced;
};

// The answer of an executor. Only the timeline is required; dovetail-exec writes all of it.
struct TimelineFile {
  Timeline timeline;
  IdVector<OpId, Seconds> predicted;  // on the clock of the timeline: dilated, and measured where not held
  IdVector<OpId, Seconds> work;       // of each op without waiting, on the same clock
  std::optional<RunReport> run;
  std::vector<std::string> notes;
};

nlohmann::ordered_json to_json(const ScheduleFile& file);
nlohmann::ordered_json to_json(const TimelineFile& file);

}  // namespace dovetail
