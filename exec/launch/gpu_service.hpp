// SPDX-License-Identifier: Apache-2.0
// Runs schedules on a GPU and measures it, from a program that does not use CUDA itself: one process of dovetail-exec
// does, for all requests.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/host/host_run.hpp"
#include "exec/launch/child_process.hpp"
#include "exec/launch/socket.hpp"
#include "exec/run/calibrate.hpp"
#include "models/files/schedule_json.hpp"

namespace dovetail::exec {

// Files of a calibration beside its own; empty: none. `points` is written while it measures, see DevicePointsWriter;
// the sizes of PeerPoints in `baselines` are measured too.
struct CalibrationFiles {
  std::string points, baselines;
};

// A variable that names the socket of a resident `dovetail-exec --device cuda --serve SOCKET`.
inline constexpr const char* server_variable = "DOVETAIL_SERVER";

class GpuService {
 public:
  // `poll` is called often while a request goes on; what it throws ends the request.
  explicit GpuService(std::function<void()> poll = {});
  ~GpuService() { stop(); }
  GpuService(const GpuService&) = delete;
  GpuService& operator=(const GpuService&) = delete;

  // As run_on_device on this machine's first GPU, or with `nccl` on a GPU for each rank. Throws InputError and
  // DeviceError as the executor says. A process that failed is replaced for the next request.
  RunResult run(const ScheduleFile& file, const RunOptions& options, bool nccl = false);

  // As calibrate_cuda (exec/device/cuda/cuda_run.hpp); of `options` the limit, the seed and `where`.
  Calibration calibrate(GridName grid, const CalibrateOptions& options, const CalibrationFiles& files);

 private:
  // Has the arguments executed, which must write `file`.
  void execute(const std::vector<std::string>& arguments, const std::string& file);
  void start();
  void stop();
  std::string answer();
  [[noreturn]] void fail();

  std::function<void()> poll_;
  std::unique_ptr<ChildProcess> process_;  // null: none yet, or the one that the variable names
  Socket socket_;
};

}  // namespace dovetail::exec
