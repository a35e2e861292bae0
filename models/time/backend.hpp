// SPDX-License-Identifier: Apache-2.0
// Anything that runs a priced schedule and tells when each op ran. Dependencies are respected, one op at a
// time per stream, first in first out, and none before the host has issued it (priced_schedule.hpp; executors have a
// host of their own). Backends know no cost model. Simulated ones are deterministic.
#pragma once
#include <string_view>

#include "models/time/timeline.hpp"

namespace dovetail {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual void prepare(const Experiment&) {}  // that the schedules of the next runs are of; for those that look at it
  virtual Timeline run(const PricedSchedule& priced) = 0;
};

}  // namespace dovetail
