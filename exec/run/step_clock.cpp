// SPDX-License-Identifier: Apache-2.0
#include "exec/run/step_clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>

namespace dovetail::exec {
namespace {

constexpr double longest_sleep = 20e-3;  // a cancellation waits for at most this

constexpr double longest_spin = 150e-6;  // a busy machine wakes later: then holds end late, and no core spins for it

// By how much most sleeps of this machine end late, by a few of this thread.
double usual_lateness() {
  constexpr std::chrono::microseconds nap{200};
  constexpr std::size_t naps = 11, of_most = 9;
  std::array<double, naps> late{};
  for (double& each : late) {
    const auto end = std::chrono::steady_clock::now() + nap;
    std::this_thread::sleep_for(nap);
    each = std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
  }
  std::ranges::sort(late);
  return std::clamp(late[of_most - 1], 0.0, longest_spin);
}

}  // namespace

void StepClock::hold_until(double time, bool spin, const Cancellation& cancellation) const {
  static const double spin_time = usual_lateness();
  const double sleep_end = spin ? time - spin_time : time;
  for (double t = now(); t < sleep_end; t = now()) {
    cancellation.check();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(sleep_end - t, longest_sleep)));
  }
  while (now() < time) cancellation.check();
}

void request_exact_timers() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds; refused by no kernel that we run on, and harmless if it were
}

}  // namespace dovetail::exec
