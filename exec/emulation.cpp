#include "exec/emulation.hpp"

#include <utility>

namespace dovetail::exec {

Emulation::Emulation(std::vector<std::optional<Seconds>> durations, Seconds tolerance, bool spin)
    : durations_(std::move(durations)), tolerance_(tolerance.value()), spin_(spin) {}

double Emulation::finish(OpId op, double ready, const StepClock& clock, const Cancellation& cancellation) {
  if (!holds(op)) return clock.now();
  const double deadline = ready + durations_[static_cast<std::size_t>(op)]->value();
  const double now = clock.now();
  if (now > deadline + tolerance_) {
    ++overruns_;
    return now - tolerance_;
  }
  clock.hold_until(deadline, spin_, cancellation);
  return deadline;
}

}  // namespace dovetail::exec
