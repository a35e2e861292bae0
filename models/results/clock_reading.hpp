// SPDX-License-Identifier: Apache-2.0
// The clock of a processor while it worked, without which times of two runs cannot be compared.
#pragma once
#include <vector>

namespace dovetail {

struct ClockReading {
  double mhz = 0;    // of its multiprocessors; 0: not known
  double watts = 0;  // that the whole device draws
  friend bool operator==(const ClockReading&, const ClockReading&) = default;
};

// The median of each of both over the readings that are known.
ClockReading median(const std::vector<ClockReading>& readings);

// Whether times that were taken at these clocks say something of each other: both within 2 %, or one is not known.
bool comparable(const ClockReading& a, const ClockReading& b);

}  // namespace dovetail
