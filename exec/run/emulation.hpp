// SPDX-License-Identifier: Apache-2.0
// Prolongs ops to modelled times. Deadlines chain: an op must end its duration after its predecessors' deadlines, not
// after the moment at which they really ended, so that late wake-ups do not pile up.
#pragma once
#include <atomic>
#include <optional>
#include <vector>

#include "exec/run/step_clock.hpp"
#include "models/schedule/op.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::exec {

class Emulation {
 public:
  Emulation() = default;  // holds nothing
  // `durations` by op, in wall seconds; none: the op takes what it takes. Work that ends up to `tolerance` after
  // its deadline does not delay the virtual finish: successors catch up. `spin`: exact, but costs a core per hold.
  Emulation(IdVector<OpId, std::optional<Seconds>> durations, Seconds tolerance, bool spin);

  bool holds(OpId op) const { return !durations_.empty() && durations_[op].has_value(); }

  // To call when the op's real work is done; `ready` is the latest virtual finish of all that it waits for,
  // in its whole group. Sleeps until the deadline and returns the virtual finish; now, if the op is not held.
  double finish(OpId op, double ready, const StepClock& clock, const Cancellation& cancellation);

  long overruns() const { return overruns_; }  // ops that ended later than the tolerance allows, so far

 private:
  IdVector<OpId, std::optional<Seconds>> durations_;
  double tolerance_ = 0;
  bool spin_ = false;
  std::atomic<long> overruns_{0};
};

// The share of held ops in the time of all ops; 0 if none ran.
double emulated_share(const Timeline& timeline);

// Whether more than 1 % of `ops` overran: such a run says nothing.
bool overran_too_often(long overruns, double ops);

}  // namespace dovetail::exec
