// Runs a schedule over MPI or on a GPU, or measures a GPU, from a program that uses neither itself: dovetail-exec does.
#pragma once
#include <functional>
#include <string>

#include "exec/host/host_run.hpp"
#include "exec/run/calibrate.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail::exec {

struct MpiLaunch {
  std::string mpirun = "mpirun";  // a path, or a name on PATH
  std::string hostfile;           // of Open MPI; empty: this machine, or those of the allocation that mpirun finds
  Seconds patience{8};            // as Watch's
  bool gpus = false;              // a GPU for each rank, and NCCL between them
  std::function<void()> poll;     // called often; what it throws ends the run
};

// dovetail-exec beside the running program. Throws DeviceError where it is missing.
std::string executor_path();

// As run_on_host, with a process per rank (of `options.measure` the limit; no hooks). Throws DeviceError in one line
// for a rank that ended or hangs, with its op as far as is known, and for what mpirun could not do. No process and no
// file of the run is left, however it ends.
HostRunResult run_over_mpi(const ScheduleFile& file, const HostRunOptions& options, const MpiLaunch& launch);

// As run_on_device on this machine's first GPU, or with `nccl` on a GPU for each rank: dovetail-exec does it. `poll` as
// above.
HostRunResult run_on_gpu(const ScheduleFile& file, const HostRunOptions& options, bool nccl,
                         const std::function<void()>& poll);

// Files of a calibration beside its own; empty: none. `points` is written while it measures, see DevicePointsWriter;
// the sizes of PeerPoints in `baselines` are measured too.
struct CalibrationFiles {
  std::string points, baselines;
};

// As calibrate_cuda (exec/device/cuda/cuda_run.hpp); of `options` the limit, the seed and `where`.
Calibration calibrate_on_gpu(bool quick, const CalibrateOptions& options, const CalibrationFiles& files,
                             const std::function<void()>& poll);

}  // namespace dovetail::exec
