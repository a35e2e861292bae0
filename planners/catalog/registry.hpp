// SPDX-License-Identifier: Apache-2.0
// All planners by name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "planners/task/planner.hpp"

namespace dovetail::planners {

// Throws InputError naming the known planners.
const Planner& find_planner(std::string_view name);
std::vector<std::string> planner_names();

}  // namespace dovetail::planners
