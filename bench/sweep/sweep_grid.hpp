// SPDX-License-Identifier: Apache-2.0
// The grid that dovetail sweep computes: a product of axes, and systems at each point. Cells are numbered and made
// when they are asked for, so that a grid of any size takes no memory.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/files/load.hpp"

namespace dovetail::bench {

inline constexpr std::int64_t most_cells = 100'000'000;

// Values of one or several keys that change together. Keys: cluster, model, calibration, nodes, or a dotted path as
// of --set (workload.batch, plan.forward_degree).
struct SweepAxis {
  std::string name;
  std::vector<nlohmann::ordered_json> values;  // objects key -> value
};

struct SweepPoint {
  nlohmann::ordered_json values;  // of all axes: key -> value
  ExperimentRequest request;
};

struct SweepGrid {
  std::string name, description, backend;
  ExperimentRequest base;
  std::vector<SweepAxis> axes;       // the last one varies fastest
  std::vector<std::string> systems;  // at every point; names or files
  int draws = 0;                     // of unsure costs, for the interval of each step; 0: none. Not of the file
  std::uint64_t seed = 0;            // of the draws

  std::int64_t points() const;
  std::int64_t cells() const { return points() * static_cast<std::int64_t>(systems.size()); }
  SweepPoint point(std::int64_t index) const;
};

// A name in data/sweeps or a path; paths in it are relative to it. Throws InputError with the place of what is wrong.
SweepGrid load_sweep_grid(const std::string& name, FilesRead& files);

}  // namespace dovetail::bench
