// SPDX-License-Identifier: Apache-2.0
// A capture of work into a graph, by CUDA's rules: queues join it by waiting for captured work, and must be joined to
// the origin again.
#pragma once
#include <map>
#include <vector>

#include "exec/device/deferred/runner.hpp"

namespace dovetail::exec::deferred {

class Capture {
 public:
  Capture(std::int32_t number, Lane& origin) : number_(number), origin_(origin) { lanes_[&origin]; }

  // Whether the command belongs to the graph, which then has it; else it is the queue's. Throws DeviceError for a wait
  // that would cross the capture's border.
  bool take(Lane& lane, const Command& command);

  // By lane what was captured from it, the origin's first. Throws DeviceError where a lane is not joined.
  std::vector<std::vector<Command>> take_all();

 private:
  struct Part {
    std::vector<Command> commands;
    Clock clock;
  };

  std::int32_t number_;
  Lane& origin_;
  std::map<Lane*, Part> lanes_;
};

}  // namespace dovetail::exec::deferred
