// SPDX-License-Identifier: Apache-2.0
// Checks that every backend must pass with any schedule.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/time/backend.hpp"

namespace dovetail::test {

struct BackendUnderTest {
  std::string_view name;
  std::function<std::unique_ptr<Backend>(const Experiment&)> make;
  bool needs_operands = false;  // runs real ops, so that schedules made by hand are not for it
};

std::vector<BackendUnderTest> backends_under_test();

// A small experiment of so many ranks (even), as stages of a pipeline or not, and plans that differ in the shape of
// their schedule: streams, chunks, overlap with the dense part.
Experiment conformance_experiment(int ranks, bool staged);
std::vector<Plan> conformance_plans(bool staged);

// Catch2 checks: an interval for each op, dependencies respected, streams first in first out with one op at a time,
// none issued later than it begins, no op and no schedule faster than possible, and, unless times are measured, the
// same bytes from run to run.
void check_conformance(Backend& backend, const PricedSchedule& priced);

}  // namespace dovetail::test
