// SPDX-License-Identifier: Apache-2.0
// The question of dovetail validate: a file of sizes to fit costs to, sizes to predict, and systems.
#pragma once
#include <string>
#include <vector>

#include "bench/validate/grid_size.hpp"
#include "exec/run/run_request.hpp"
#include "models/files/load.hpp"

namespace dovetail::bench {

// Real: kernels take what they take and their costs are fitted first. Held: to modelled times like links, which needs
// no quiet machine and proves order, runtime and numerics, not costs.
enum class KernelTimes { Real, Held };

// A system of a grid, and the planners that choose among its plans beside its own and the grid's.
struct GridSystem {
  System system;
  std::vector<std::string> planners;
};

// A planner that learns, and the system whose measured plans are its strategies.
struct GridOnline {
  std::string planner, system;
};

struct ValidationGrid {
  std::string name, description;
  ExperimentRequest request;  // the cluster whose links are emulated, the kind of model, and how much of it
  exec::RunDevice device = exec::RunDevice::Host;  // cuda: one GPU stands for one rank
  KernelTimes kernels = KernelTimes::Real;
  bool one_rank = false;  // on hosts: one rank stands for all, so that it has a core of its own
  std::vector<GridSystem> systems;
  std::vector<int> degrees;           // that their planners choose among
  std::vector<std::string> planners;  // beside each system's own
  int measured_plans = 0;   // of each system: those predicted fastest, and every choice; 0: all that planners look at
  bool strategies = false;  // of systems that reuse memory: each way to restore, in the same chunks
  std::vector<GridOnline> online;            // replayed over steps of predicted sizes that differ in their tokens alone
  std::vector<GridSize> calibrate, predict;  // disjoint; nothing to calibrate where kernels are held
};

// A name in data/validation or a path. Throws InputError with the place of what is wrong.
ValidationGrid load_validation_grid(const std::string& name, FilesRead& files);

// The grid's experiment at full size, with the settings of this size.
Experiment full_size(const ValidationGrid& grid, const GridSize& size, FilesRead& files);

}  // namespace dovetail::bench
