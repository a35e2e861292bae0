// SPDX-License-Identifier: Apache-2.0
// dovetail plan --online: choosing step by step, over a trace or for a training job that calls it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/commands.hpp"
#include "bench/cli/options.hpp"
#include "exec/run/scale_down.hpp"

namespace dovetail::bench {

// Times of a trace's steps are measured, with the experiment scaled down.
struct StepsReallyRun {
  std::string by;  // host or cuda
  exec::HostScale scale;
  Seconds measure_time;  // of a strategy at one size
};

struct OnlineOptions {
  bool online = false;
  std::string state, step;  // step: "f=1.5,batch=2"
  double report = 0;        // seconds of the last step; 0: none
  double noise = 0, bucket_length = 0;
  std::optional<StepsReallyRun> really_run;  // none: times are the backend's
};

void add_online_options(CLI::App& app, OnlineOptions& options);
// Throws InputError for options that make no sense together, also where they stand without --online.
void check_online(const OnlineOptions& online, const Options& options);

// `planner`: empty: bucketed_search. `save_plan`: of the strategy for --step; empty: none. --trace is read.
Exit plan_online(const Options& options, const OnlineOptions& online, const std::string& planner,
                 const std::string& save_plan, const std::vector<std::string>& command_line);

}  // namespace dovetail::bench
