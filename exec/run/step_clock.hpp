// SPDX-License-Identifier: Apache-2.0
// The time within a step, in seconds since its start, by the steady clock.
#pragma once
#include <chrono>

#include "exec/run/cancellation.hpp"

namespace dovetail::exec {

// The steady clock's times of a step, in seconds from any origin.
struct StepSpan {
  double start = 0, finish = 0;  // of its first op, and of its last one
};

class StepClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  void restart(Time origin) { origin_ = origin; }
  Time origin() const { return origin_; }
  double now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count(); }

  // Sleeps until `time`; with `spin` it wakes early and spins the rest, which costs a core and is exact to 1 us.
  // Throws Cancelled soon after a cancellation.
  void hold_until(double time, bool spin, const Cancellation& cancellation) const;

 private:
  Time origin_ = std::chrono::steady_clock::now();
};

// Lets this thread's sleeps end on time: Linux may else prolong them by 50 us.
void request_exact_timers();

}  // namespace dovetail::exec
