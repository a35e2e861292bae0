// SPDX-License-Identifier: Apache-2.0
// Priced schedules made by hand or at random, for tests of backends. Their ops have no operands: they can be
// simulated, not executed.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/price/price.hpp"

namespace dovetail::test {

class HandMade {
 public:
  HandMade(int streams, int resources);

  OpId add(StreamId stream, std::initializer_list<OpId> dependencies, double fixed,
           std::initializer_list<Demand> demands);
  OpId add(StreamId stream, std::span<const OpId> dependencies, double fixed, std::span<const Demand> demands);

  // An activity, and an op of such activities; several ops may have the same one.
  ActivityId activity(std::span<const Demand> demands);
  ActivityId activity(std::initializer_list<Demand> demands);
  OpId add_of(StreamId stream, std::span<const OpId> dependencies, double fixed,
              std::span<const ActivityId> activities);
  OpId add_of(StreamId stream, std::initializer_list<OpId> dependencies, double fixed,
              std::initializer_list<ActivityId> activities);

  // The host takes so long to issue each op from here on; to be called before the first op, if at all.
  void launches_take(double seconds) { launch_ = seconds; }
  // An op of no time on a stream: all later ops depend on it and it on all before, and the host waits for its end.
  OpId wait(StreamId stream);

  void change(int resource, double at, double speed);  // in the order of time
  PricedSchedule priced() const;

 private:
  bool one_each_ = true;  // op i has activity i alone
  double launch_ = 0;     // 0: launches take no time, in the whole schedule
  OpId last_wait_;
  Schedule schedule_;
  PricedSchedule priced_;
};

// `seconds` of `resource`.
inline Demand use(int resource, double seconds, int multiplicity = 1) {
  return {resource, Seconds(seconds), multiplicity};
}

struct RandomShape {
  int ops = 40;
  int streams = 4;
  double shortest = 1e-6;  // durations are spread evenly over the orders of magnitude up to `longest`
  double longest = 1;
  int shared_resources = 0;  // beside one of each stream's own; each op then demands some of them
  int activities = 0;        // at most so many of each op, and some that two ops share; 0: one each, of its own
  int speed_changes = 0;     // of any resources, within the time that the ops alone take
  bool launches = false;     // take the host time, and it waits now and then
};

// Ops on random streams with up to three dependencies each; now and then without fixed time, demand or either.
PricedSchedule random_priced(std::uint32_t seed, const RandomShape& shape);

}  // namespace dovetail::test
