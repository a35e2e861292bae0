// SPDX-License-Identifier: Apache-2.0
// Runs a schedule over MPI, from a program that does not use MPI itself: dovetail-exec does.
#pragma once
#include <functional>
#include <string>

#include "exec/host/host_run.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail::exec {

struct MpiLaunch {
  std::string mpirun = "mpirun";  // a path, or a name on PATH
  std::string hostfile;           // of Open MPI; empty: this machine, or those of the allocation that mpirun finds
  Seconds patience{8};            // as Watch's
  bool gpus = false;              // a GPU for each rank, and NCCL between them
  std::function<void()> poll;     // called often; what it throws ends the run
};

// As run_on_host, with a process per rank (of `options.measure` the limit; no hooks). Throws DeviceError in one line
// for a rank that ended or hangs, with its op as far as is known, and for what mpirun could not do. No process and no
// file of the run is left, however it ends.
RunResult run_over_mpi(const ScheduleFile& file, const RunOptions& options, const MpiLaunch& launch);

}  // namespace dovetail::exec
