// SPDX-License-Identifier: Apache-2.0
// From the files between planner and executor; what they hold and how they are written is in schedule_json.hpp.
#pragma once
#include "models/base/json/json_file.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail {

// Throw InputError: another version, a wrong value with its place, a schedule that its question and plan do not give
// (schedule_match.hpp).
ScheduleFile read_schedule(const JsonFile& file);
TimelineFile read_timeline(const JsonFile& file);

}  // namespace dovetail
