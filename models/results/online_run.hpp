// SPDX-License-Identifier: Apache-2.0
// The result of planning step by step over a trace: the choices, and what they cost against the best of each step.
// Reports print it.
#pragma once
#include <string>
#include <vector>

#include "models/results/result.hpp"

namespace dovetail {

struct OnlineStrategy {
  std::string name;
  Plan plan;
};

struct OnlineStep {
  double capacity_factor = 1;  // of top_k of the experiment; where the trace says "no drops", what that took
  double tokens = 1;           // over the experiment's
  std::vector<Seconds> times;  // under each strategy, without noise
  std::size_t chosen = 0;
  Seconds reported;  // of the chosen one, with noise: all that the planner sees

  Seconds time() const { return times[chosen]; }
};

struct OnlineRun {
  Experiment experiment;
  std::string planner, trace, backend, state;  // state: its file; empty: none
  ResultKind kind = ResultKind::Predicted;     // of the times
  bool resumed = false;                        // the planner knew something at the start
  double noise = 0;                            // standard deviation of reported times over the true ones
  std::vector<OnlineStrategy> strategies;
  std::vector<OnlineStep> steps;
  std::vector<std::string> notes;
  RunProvenance provenance;
};

}  // namespace dovetail
