// SPDX-License-Identifier: Apache-2.0
// The settings of a deferred device, and the record that it keeps.
#pragma once
#include <functional>
#include <vector>

#include "exec/device/deferred/shadow.hpp"

namespace dovetail::exec {

struct DeferredSettings {
  std::uint64_t seed = 1;  // of orders and of how long commands last, 1 ns to 1 us
  // Copies, fills, products and exchanges say what they touch. Kernels are seen where they are compiled with hooks, and
  // by the thread sanitizer, which then does all of the tracing.
  bool trace = true;
  bool log = false;                                      // see commands()
  std::function<void(const deferred::Race&)> tell = {};  // at once, of each race; may be none
};

// As the host gave them out, or its wait for all of a lane. The next one after a synchronize() begins another log.
struct LoggedCommand {
  deferred::LaneId lane = 0;
  Purpose purpose;
  bool host_waits = false;
  std::int32_t waits_for = 0, records = 0;  // numbers of records, 0: none
  std::vector<deferred::Range> reads, writes;
};

}  // namespace dovetail::exec
