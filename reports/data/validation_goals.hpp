// SPDX-License-Identifier: Apache-2.0
// Whether a validation meets the project's goals, and which ops its errors come from.
#pragma once
#include <string>
#include <vector>

#include "models/results/validation.hpp"

namespace dovetail::reports {

struct Goal {
  std::string what;
  double most = 0, value = 0;
  bool hit() const { return value <= most; }  // not where the value is unknown
};

// The mean absolute error, at most 3 %; of all planners the largest mean regret over cells, at most 1 %.
std::vector<Goal> goals(const Validation& validation);

// All ops of one kind and pass of all plans, the largest difference of sums first.
std::vector<OpTimes> op_differences(const Validation& validation);

// The ops of a plan whose times differ most from their prediction; null where nothing was measured. A plan may be off
// without them: what overlapped less than predicted is in no op's time.
const OpTimes* largest_difference(const PlanOutcome& plan);

// Kernels alone: |predicted / measured - 1| of the points that nothing was fitted to; by kind of work, then of all.
struct PointError {
  std::string what;  // "all" at the end
  std::size_t points = 0;
  double mean = 0, worst = 0;  // worst: with its sign
};
std::vector<PointError> point_errors(const DeviceStudy& device);

// Plans of each cell, of whichever system, that differ in nothing but how they restore what they did not keep; groups
// of one way are left out.
struct RestoreGroup {
  const ValidationCell* cell = nullptr;
  std::vector<const PlanOutcome*> plans;  // in the order of the strategies
};
std::vector<RestoreGroup> restore_groups(const Validation& validation);

}  // namespace dovetail::reports
