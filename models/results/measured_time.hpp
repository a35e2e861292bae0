// SPDX-License-Identifier: Apache-2.0
// Measured times beside predictions of them, whatever was measured, and how near the predictions of a source came.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/base/units.hpp"
#include "models/results/step_range.hpp"

namespace dovetail {

struct MeasuredTime {
  std::string name, note;  // note: what the statement leaves out or takes otherwise; empty: nothing
  Seconds measured, predicted;
  std::optional<StepRange> range;  // ratios to `predicted`; none: it was not asked for
};
double time_error(const MeasuredTime& time);                // predicted / measured - 1
std::optional<bool> range_holds(const MeasuredTime& time);  // whether `measured` lies in it; none: there is none
Seconds range_low(const MeasuredTime& time);                // `predicted` where there is no range
Seconds range_high(const MeasuredTime& time);

// The beginning of a file of measured times: what they are, and who measured them.
struct MeasuredSource {
  std::string id, title, source, licence;
  std::vector<std::string> notes;  // that hold for all of its times
};

// Values do not exist where there is no time that has what they need.
struct TimesSummary {
  int times = 0;
  std::optional<double> mean_error, median_error;  // of |predicted / measured - 1|
  std::optional<double> signed_error;              // mean of predicted / measured - 1
  int ranges = 0, held = 0;                        // ranges that hold the measured time
};
TimesSummary summarise_times(std::span<const MeasuredTime* const> times);

std::optional<double> mean_or_none(std::span<const double> values);

}  // namespace dovetail
