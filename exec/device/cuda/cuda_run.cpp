// SPDX-License-Identifier: Apache-2.0
#include "exec/device/cuda/cuda_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/device/device_meter.hpp"
#include "exec/device/device_run.hpp"

namespace dovetail::exec {

RunResult run_on_cuda(const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                      const RunOptions& options) {
  const auto device = make_cuda_device(0);
  return run_on_device(*device, experiment, std::move(priced), options);
}

Calibration calibrate_cuda(GridName grid, CalibrateOptions options) {
  const auto device = make_cuda_device(0);
  const std::string what = device->description();
  options.where = options.where.empty() ? what : fmt::format("{}; {}", what, options.where);
  options.shortest = std::max(options.shortest, sample_under_load);  // so that clocks are those of steps
  options.longer_pairs = 4;
  options.warm_up = warm_up_under_load;
  const auto meter = make_device_meter(*device);
  Calibration c = calibrate(*meter, calibration_grid(grid, 1), options);
  c.source = "Measured on " + what;
  return c;
}

}  // namespace dovetail::exec
