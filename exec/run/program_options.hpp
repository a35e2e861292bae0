// SPDX-License-Identifier: Apache-2.0
// The options of dovetail-exec.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "exec/run/calibrate.hpp"
#include "exec/run/run_request.hpp"

namespace dovetail::exec {

struct ProgramOptions {
  RunRequest run;
  std::string schedule, output = "-";
  bool pulse = false, help = false;
  bool calibrate = false;
  GridName grid = GridName::Gpu;  // of a calibration
  std::string serve;              // a socket at which requests are taken; empty: none
  CalibrateOptions costs;
  std::string points, baselines;
};

// Throws InputError for what is unknown, lacks its value or contradicts itself.
ProgramOptions parse_program_options(const std::vector<std::string>& arguments);

extern const std::string_view program_help;

}  // namespace dovetail::exec
