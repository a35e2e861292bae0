// The files between planner and executor: a priced schedule in, a timeline out. Public and versioned, so that
// any executor can be measured the same way. Times are seconds, sizes elements and bytes.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/json/json_file.hpp"
#include "models/timeline.hpp"

namespace dovetail {

inline constexpr int schedule_file_version = 2;  // raised when an older reader would misread

// What an executor needs: the sizes of the layer, who is in which group, and the ops with their modelled times.
struct ScheduleFile {
  Model model;
  Workload workload;
  Parallelism parallelism;
  PricedSchedule priced;
};

nlohmann::ordered_json to_json(const ScheduleFile& file);
nlohmann::ordered_json to_json(const Timeline& timeline);

// Throw InputError: another version, a wrong value with its place, a schedule that validate() refuses.
ScheduleFile read_schedule(const JsonFile& file);
Timeline read_timeline(const JsonFile& file);

}  // namespace dovetail
