// SPDX-License-Identifier: Apache-2.0
// Judges by their pulses whether the processes of a run still go on.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "exec/launch/pulse.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail::exec {

// Times are seconds by any clock.
class Watch {
 public:
  // `patience`: how long a process may say nothing, and how long no op may finish anywhere, if that is not less than
  // twice what the longest op takes. `start`: of the launch; for the first sign of any life there are four times as
  // long, since machines have to be reached, and for those of the others as long as after any first one.
  Watch(const Schedule& schedule, int ranks, double patience, double start);

  void heard(const Beat& beat, double now);

  // A complaint in words, if anything is wrong: a silent process, or else the op that nobody gets past, with its ranks.
  std::optional<std::string> complaint(double now) const;

  // The place of a rank when it was last heard: "last in expert.0", "last between two ops", "before its first step".
  std::string place_of(int rank) const;

 private:
  struct Rank {
    Beat last;
    std::optional<double> heard;
  };
  std::string name_of(OpId op) const;

  std::optional<std::string> silence(double now) const;

  const Schedule& schedule_;
  double patience_;
  double start_;
  double first_sign_;  // the last one of a process that had given none
  double progress_;    // when an op last finished
  std::vector<Rank> ranks_;
};

}  // namespace dovetail::exec
