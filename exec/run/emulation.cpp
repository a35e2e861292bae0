// SPDX-License-Identifier: Apache-2.0
#include "exec/run/emulation.hpp"

#include <utility>

namespace dovetail::exec {

Emulation::Emulation(IdVector<OpId, std::optional<Seconds>> durations, Seconds tolerance, bool spin)
    : durations_(std::move(durations)), tolerance_(tolerance.value()), spin_(spin) {}

double Emulation::finish(OpId op, double ready, const StepClock& clock, const Cancellation& cancellation) {
  if (!holds(op)) return clock.now();
  const double deadline = ready + durations_[op]->value();
  const double now = clock.now();
  if (now > deadline + tolerance_) {
    ++overruns_;
    return now - tolerance_;
  }
  clock.hold_until(deadline, spin_, cancellation);
  return deadline;
}

double emulated_share(const Timeline& timeline) {
  Seconds busy, held;
  for (const OpId i : timeline.ops.ids()) {
    const Seconds time = timeline.ops[i].finish - timeline.ops[i].start;
    busy += time;
    if (timeline.emulated[i]) held += time;
  }
  return busy > Seconds(0) ? held / busy : 0;
}

bool overran_too_often(long overruns, double ops) {
  constexpr double share = .01;
  return static_cast<double>(overruns) > share * ops;
}

}  // namespace dovetail::exec
