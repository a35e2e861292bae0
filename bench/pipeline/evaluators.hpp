// SPDX-License-Identifier: Apache-2.0
// The evaluators that tell planners how long a plan takes: a model, a simulation, or this machine.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "exec/run/run_request.hpp"
#include "models/time/timeline.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

struct EvaluatorSettings {
  Seconds measure_time{1};  // of real runs: longest, for the samples of one plan
  std::uint64_t seed = 0;   // of real runs: of weights and data
  std::string platform{};   // a SimGrid platform file, for the backend that takes one
};

// A backend: the makespan on it. host, cuda: the plan's measured_step on this machine. A plan asked for twice runs
// once. `experiment` must outlive the evaluator. Throws InputError for an unknown name, DeviceError for a backend that
// this build lacks.
planners::Evaluator make_evaluator(const std::string& name, const Experiment& experiment,
                                   const EvaluatorSettings& settings = {});

// The median step of a plan that really runs here, in modelled time: on CPUs with links and kernels held to their
// modelled times, on a GPU with links alone. Throws InputError for what no executor runs, DeviceError where this
// machine cannot.
Seconds measured_step(const Experiment& experiment, const Plan& plan, exec::RunDevice device,
                      const EvaluatorSettings& settings = {});

// host and cuda measure; all else is as the entry of its backend says.
struct EvaluatorTraits {
  ResultKind kind = ResultKind::Measured;
  bool planners_model = false;
};

// Throws InputError for an unknown name.
EvaluatorTraits evaluator_traits(const std::string& name);

std::vector<std::string> evaluator_names();

// The device that really runs plans, by its name among evaluators. Throws DeviceError for one that this build lacks.
exec::RunDevice device_that_runs(const std::string& name);

// A note for results: which part of times that this device measures is real.
std::string describe_measured_times(exec::RunDevice device);

}  // namespace dovetail::bench
