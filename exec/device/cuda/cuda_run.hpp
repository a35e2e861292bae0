// SPDX-License-Identifier: Apache-2.0
// Runs and calibrations on this machine's first GPU. DeviceError where there is none.
#pragma once
#include "exec/host/host_run.hpp"
#include "exec/run/calibrate.hpp"

namespace dovetail::exec {

// See run_on_device.
RunResult run_on_cuda(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options);

// In the sizes of a grid of a GPU, see GridName. No name, and no collectives.
Calibration calibrate_cuda(GridName grid, CalibrateOptions options);

}  // namespace dovetail::exec
