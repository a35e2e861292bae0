// The files between planner and executor: a priced schedule in, a timeline out. Public and versioned, so that
// any executor can be measured the same way. Times are seconds, sizes elements and bytes.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/base/json/json_file.hpp"
#include "models/results/result.hpp"

namespace dovetail {

inline constexpr int schedule_file_version = 2;  // raised when an older reader would misread

// What an executor needs: the sizes of the layer, who is in which group, and the ops with their modelled times.
struct ScheduleFile {
  Model model;
  Workload workload;
  Parallelism parallelism;
  PricedSchedule priced;
};

// What an executor gives back. Only the timeline is required; dovetail-exec writes all of it.
struct TimelineFile {
  Timeline timeline;
  std::vector<Seconds> predicted;  // by op, on the clock of the timeline: dilated, and measured where not held
  std::optional<RunReport> run;
  std::vector<std::string> notes;
};

nlohmann::ordered_json to_json(const ScheduleFile& file);
nlohmann::ordered_json to_json(const TimelineFile& file);

// Throw InputError: another version, a wrong value with its place, a schedule that validate() refuses.
ScheduleFile read_schedule(const JsonFile& file);
TimelineFile read_timeline(const JsonFile& file);

}  // namespace dovetail
