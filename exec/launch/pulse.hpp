// SPDX-License-Identifier: Apache-2.0
// The signs of life that each process of a run writes to its standard output. mpirun brings them to the launcher from
// all machines.
#pragma once
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "exec/run/progress.hpp"

namespace dovetail::exec {

struct Beat {
  int rank = 0;
  long finished = 0;         // ops, since the start
  OpId op = Progress::none;  // the earliest in program order that runs now
  double longest = 0;        // what an op may take, in seconds, as far as is known
};

std::string to_line(const Beat& beat);                  // with its line break
std::optional<Beat> parse_beat(std::string_view line);  // without it; nothing if it is none

// Lives while a process is watched. A thread of its own: it goes on while others compute or wait.
class Pulse {
 public:
  Pulse(int rank, const Progress& progress);

 private:
  std::jthread thread_;
};

}  // namespace dovetail::exec
