// SPDX-License-Identifier: Apache-2.0
// One SimGrid simulation: activities that run on unit-speed resources. Knows nothing of schedules.
// simgrid/s4u.hpp stays in the .cpp: every file that includes it takes seconds longer to compile.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "models/price/price.hpp"

namespace dovetail::sim {

class Engine;

// SimGrid allows one engine in a process, and one thread to use it: the first that does. Simulations do not overlap.
// Throws InternalError in any other thread.
class Simulation {
 public:
  explicit Simulation(std::size_t resources, bool speeds_change = false);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Starts an activity now. It progresses on all its demands together and ends with the slowest; `multiplicity`
  // flows of it take part in the fair sharing of a resource. At least one demand, all positive and finite.
  void start(std::int64_t tag, std::span<const Demand> demands);

  // Gives the resource this speed from now on, above 0 (1 at first). Only for engines in which speeds change.
  void set_speed(int resource, double speed);

  // Runs until nothing is left. `finished` gets the tag of each activity when it ends, may start others and
  // must not throw.
  void run(const std::function<void(std::int64_t tag)>& finished);

  // Seconds since the start of this simulation.
  double now() const;

 private:
  Engine& engine_;
};

}  // namespace dovetail::sim
