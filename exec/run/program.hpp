// SPDX-License-Identifier: Apache-2.0
// The program dovetail-exec: a schedule file in, the timeline of really executing it out; or what a GPU's operations
// cost.
#pragma once
#include <string>
#include <vector>

#include "exec/host/host_run.hpp"
#include "exec/run/calibrate.hpp"
#include "exec/transport/world.hpp"

namespace dovetail::exec {

using MakeWorld = std::unique_ptr<World> (*)();

// The functions behind --device cuda; null: not in this build.
struct Cuda {
  RunResult (*run)(const Experiment&, std::shared_ptr<const PricedSchedule>, const RunOptions&) = nullptr;
  RunResult (*run_over_nccl)(const Experiment&, std::shared_ptr<const PricedSchedule>, const RunOptions&,
                             World*) = nullptr;
  Calibration (*calibrate)(GridName, CalibrateOptions) = nullptr;
};

// Exit codes: 0 done; 1 numerics differ from the reference, or a bug; 2 wrong usage or input; 4 a device or library
// failed. Messages go to standard error. `mpi` makes the processes of --transport mpi; null: not in this build.
int run_program(const std::vector<std::string>& arguments, MakeWorld mpi = nullptr, const Cuda& cuda = {});

}  // namespace dovetail::exec
