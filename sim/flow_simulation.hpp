// SPDX-License-Identifier: Apache-2.0
// SimGrid's model of flows on links (CM02): a message has the rate that max-min fairness on the links of its route
// gives it. simgrid/s4u.hpp stays in the .cpp, as in simulation.hpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/network/network.hpp"
#include "sim/platform_file.hpp"

namespace dovetail::sim {

// One in a process, and none where there is a Simulation: SimGrid has one engine and reads its settings once. All that
// is here throws InternalError where that does not hold.
class FlowSimulation {
 public:
  // Hosts 0 to hosts - 1, joined by the links of a network, which have no latency.
  FlowSimulation(int hosts, const Network& network);
  // The first hosts of a SimGrid platform, in its order. Throws InputError where it has fewer.
  FlowSimulation(int hosts, const Platform& platform);
  ~FlowSimulation();
  FlowSimulation(const FlowSimulation&) = delete;
  FlowSimulation& operator=(const FlowSimulation&) = delete;

  void start_flow(std::int64_t tag, int from, int to, Bytes bytes);  // from != to; at least one byte
  void start_delay(std::int64_t tag, Seconds time);                  // above 0

  // Runs until nothing is left; `ended` gets the tag of each as it ends, may start others and must not throw.
  void run(const std::function<void(std::int64_t tag)>& ended);
  Seconds now() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::sim
