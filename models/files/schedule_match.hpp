// SPDX-License-Identifier: Apache-2.0
// A schedule file holds what its question and plan give and nothing else, so that an executor may rely on every shape,
// group, layer and operand: the schedule is built again and compared.
#pragma once
#include "models/base/json/json_file.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail {

// Throws InputError at the first value of `input` that differs, with both values, or at the one that cannot be built.
// A file decides only what the rest does not imply: the order of ops of plans with order ready_first (any that their
// dependencies and the order of computation allow), and prices, which must agree with one another.
void require_match(const ScheduleFile& file, const JsonFile& input);

}  // namespace dovetail
