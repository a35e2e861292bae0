// SPDX-License-Identifier: Apache-2.0
#include "models/results/clock_reading.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail {
namespace {

constexpr double most_apart = .02;

double median_of(std::vector<double> known) {
  if (known.empty()) return 0;
  const auto middle = known.begin() + std::ssize(known) / 2;
  std::ranges::nth_element(known, middle);
  return *middle;
}

}  // namespace

ClockReading median(const std::vector<ClockReading>& readings) {
  std::vector<double> mhz, watts;
  for (const ClockReading& reading : readings) {
    if (reading.mhz > 0) mhz.push_back(reading.mhz);
    if (reading.watts > 0) watts.push_back(reading.watts);
  }
  return {median_of(std::move(mhz)), median_of(std::move(watts))};
}

bool comparable(const ClockReading& a, const ClockReading& b) {
  return a.mhz <= 0 || b.mhz <= 0 || std::fabs(a.mhz - b.mhz) <= most_apart * std::max(a.mhz, b.mhz);
}

}  // namespace dovetail
