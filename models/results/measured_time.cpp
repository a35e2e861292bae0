// SPDX-License-Identifier: Apache-2.0
#include "models/results/measured_time.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dovetail {
namespace {

std::optional<double> middle_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double time_error(const MeasuredTime& time) {
  return time.predicted / time.measured - 1;
}

Seconds range_low(const MeasuredTime& time) {
  return time.range ? time.predicted * time.range->low : time.predicted;
}

Seconds range_high(const MeasuredTime& time) {
  return time.range ? time.predicted * time.range->high : time.predicted;
}

std::optional<bool> range_holds(const MeasuredTime& time) {
  if (!time.range) return std::nullopt;
  return range_low(time) <= time.measured && time.measured <= range_high(time);
}

std::optional<double> mean_or_none(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

TimesSummary summarise_times(std::span<const MeasuredTime* const> times) {
  TimesSummary summary;
  std::vector<double> errors, absolute;
  for (const MeasuredTime* time : times) {
    errors.push_back(time_error(*time));
    absolute.push_back(std::abs(errors.back()));
    if (const auto holds = range_holds(*time)) {
      ++summary.ranges;
      if (*holds) ++summary.held;
    }
  }
  summary.times = static_cast<int>(errors.size());
  summary.mean_error = mean_or_none(absolute);
  summary.median_error = middle_of(absolute);
  summary.signed_error = mean_or_none(errors);
  return summary;
}

}  // namespace dovetail
