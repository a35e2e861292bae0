// SPDX-License-Identifier: Apache-2.0
// The settings of a device's executor for its step.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "exec/device/device_network.hpp"
#include "exec/device/element.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/progress.hpp"
#include "models/base/units.hpp"

namespace dovetail::exec {

// The ranks that are on the device. All: every rank of the schedule, so that exchanges are copies and sums between them
// and results are exact. One: rank 0 alone; an exchange copies as many bytes as would arrive and is held to its
// modelled time, so that times are those of one rank of many, and contents are of no use. Own: the network's rank,
// which exchanges with ranks on other devices.
enum class DeviceRanks { All, One, Own };

struct DeviceSettings {
  Stored scalar = Stored::Float;  // Double, Float or Bf16
  DeviceRanks ranks = DeviceRanks::All;
  std::vector<std::vector<Routing>> routing;                  // as of the host's executor
  IdVector<OpId, std::optional<Seconds>> exchange_durations;  // One: by op; none: not held
  Seconds overrun_tolerance;                                  // of those; see Hold
  int exchange_blocks = 1;                                    // One: see HeldExchange
  int product_multiprocessors = 0;                            // that products are made for; 0: all
  Seconds shortest_sample;                                    // One: captured steps repeat until a sample is as long
  DeviceNetwork* network = nullptr;                           // Own: of all ranks; must outlive the executor
  std::function<void()> align;   // Own: called when a step is ready to begin; returns when it is everywhere
  Progress* progress = nullptr;  // Own: is told of each op that is waited for, if given
};

}  // namespace dovetail::exec
