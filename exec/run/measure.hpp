// SPDX-License-Identifier: Apache-2.0
// How often to run a step, and what its samples say.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail::exec {

// A GPU lowers its clock under load. Times of calibrations, of steps and of other programs can be compared where all
// have worked for so long before they count, and where each sample goes on back to back for so long.
inline constexpr Seconds warm_up_under_load{.3}, sample_under_load{.05};
// The clock is read in the middle of a sample, but not more often than this.
inline constexpr Seconds between_clock_readings{.1};

struct MeasureSettings {
  int warm_up = 1;       // samples that are not kept
  int min_samples = 10;  // and
  Seconds min_time{.5};  // in sum, before the deviation may end it
  double deviation = .005;
  Seconds limit{15};  // ends it in any case, after
  int least_samples = 1;
  std::uint64_t seed = 1;  // of the bootstrap
};

struct Measurement {
  std::vector<Seconds> samples;
  Seconds median;
  Seconds ci95_low, ci95_high;  // bootstrap interval of the median
  std::string stopped_by;       // "deviation", "time limit" or "given up"
};

// By the steady clock, from any origin.
Seconds steady_time();

// Calls `step`, which returns its time, until the settings' criteria are met, or `give_up`, if any, says so. Processes
// that measure together give a `clock` that they share, so that all stop at the same step.
Measurement measure(const std::function<Seconds()>& step, const MeasureSettings& settings,
                    const std::function<bool()>& give_up = {}, const std::function<Seconds()>& clock = steady_time);

Seconds median(std::vector<Seconds> samples);  // of at least one

// Interquartile range / 1.349 / median: the standard deviation over the mean for normal samples, and not moved by
// the few that a busy machine delays.
double relative_deviation(const std::vector<Seconds>& samples);

// 95 % percentile interval of the median over 2,000 resamples.
std::pair<Seconds, Seconds> bootstrap_median(const std::vector<Seconds>& samples, std::uint64_t seed);

}  // namespace dovetail::exec
