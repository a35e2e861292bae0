// SPDX-License-Identifier: Apache-2.0
// Times of another program on the same device: the files that bench/peers/torch_baselines.py and torch_moe.py write.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/results/device_point.hpp"

namespace dovetail {

struct PeerPoint {
  std::string name;  // "up, input_gradient"
  DevicePoint point;
};

struct PeerPoints {
  std::string gpu;
  std::map<std::string, std::string> versions;
  std::vector<PeerPoint> points;
};

// A training step of one rank without exchanges.
struct PeerStep {
  std::string what, gpu;
  std::map<std::string, std::string> versions;
  long hidden = 0;  // of the layer
  Seconds median, ci95_low, ci95_high;
  ClockReading clock;
};

// Throw InputError with the place of what is missing or wrong.
PeerPoints read_peer_points(const std::string& path, FilesRead& files);
PeerStep read_peer_step(const std::string& path, FilesRead& files);

}  // namespace dovetail
