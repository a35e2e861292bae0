#include "exec/run/step_clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace dovetail::exec {
namespace {

constexpr double longest_sleep = 20e-3;  // a cancellation waits for at most this
constexpr double spin_time = 80e-6;      // longer than a wake-up takes

}  // namespace

void StepClock::hold_until(double time, bool spin, const Cancellation& cancellation) const {
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
