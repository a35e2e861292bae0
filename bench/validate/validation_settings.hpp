// SPDX-License-Identifier: Apache-2.0
// How a validation grid is measured.
#pragma once
#include <cstdint>
#include <string>

#include "bench/cli/terminal.hpp"
#include "models/base/units.hpp"

namespace dovetail::bench {

struct ValidationSettings {
  Seconds measure_time{2};  // longest, for one plan, in all rounds together
  int rounds = 5;           // through all plans, each in another order: drifts of the machine hit all alike
  bool check_numerics = true;
  std::uint64_t seed = 1;  // of weights, data and the orders of plans
  Talk talk = Talk::Normal;
  Seconds time_limit;  // no measurement begins later than so long after the start; 0: never too late
  std::string
      calibration;  // of the GPU: its kept speeds, and its costs for predictions without a fit; empty: the cluster's
  std::string journal;  // file in which finished plans are kept until the end
};

}  // namespace dovetail::bench
