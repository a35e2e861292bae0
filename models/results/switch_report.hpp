// SPDX-License-Identifier: Apache-2.0
// The cost of switching between two plans from one step to the next, really executed and measured.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/base/units.hpp"

namespace dovetail {

// The median of repeats and the 95 % interval of it. Differences may be below 0.
struct MedianTime {
  Seconds median, ci95_low, ci95_high;
};

// A step after one of the same or the other plan.
struct TurnTimes {
  MedianTime gap;   // from the end of the last op of the step before to the start of its first op, on any rank
  MedianTime step;  // from there to the end of its last op
};

struct SwitchReport {
  std::vector<std::string> settings;     // by which the second plan differs: "plan.expert_sharding=ep_mp"
  int repeats = 0;                       // of each turn, interleaved
  std::array<TurnTimes, 4> turns;        // by turn_of()
  MedianTime cost;                       // of one switch: what the gaps with one are longer than those without
  std::array<MedianTime, 2> first_step;  // by plan: what the step after a switch is longer than the one after it

  // Memory is that of the rank that has most.
  std::int64_t kept_bytes = 0;                // weights and optimizer states, which steps take over from one another
  std::int64_t moved_bytes = 0;               // of these, not at the same address for both plans
  std::array<std::int64_t, 2> alone_bytes{};  // all tensors of a step, by plan
  std::int64_t both_bytes = 0;                // allocated for the steps of both

  // Steps by turns in double precision were compared, each with the reference's.
  int checked_steps = 0, checked_switches = 0;  // 0: nothing was compared
  double output_error = 0, gradient_error = 0;  // relative Frobenius, the worst of all steps
  double weight_error = 0;                      // of the weights after the last one
  double tolerance = 0;                         // of all three
  bool ok = true;

  // Plans are 0 and 1.
  static constexpr std::size_t turn_of(std::size_t before, std::size_t plan) { return 2 * before + plan; }
  const TurnTimes& turn(std::size_t before, std::size_t plan) const { return turns[turn_of(before, plan)]; }
};

}  // namespace dovetail
