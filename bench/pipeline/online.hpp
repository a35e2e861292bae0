// SPDX-License-Identifier: Apache-2.0
// Planning step by step: strategies of an online planner, and a trace gone through with it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/pipeline/evaluate.hpp"
#include "models/files/load_trace.hpp"
#include "models/results/online_run.hpp"
#include "planners/online/online.hpp"
#include "planners/task/planner.hpp"

namespace dovetail::bench {

// The experiment with the size, capacity factor and loads of a step. Throws InputError where they do not fit.
Experiment at_step(const Experiment& experiment, const TraceStep& step);
planners::StepSize size_of(const Experiment& experiment, const Experiment& at_step);

// Each system's open choice as plans: for bucketed_search and tutel_search every degree with linear and two-dimensional
// all-to-alls, for joint_search with each sharding too, for granularity_search and mpipemoe_search every degree, for
// parallelism_router every sharding; of these, what keeps the user's settings. A plan file is a strategy as it is. Left
// out, with a note: what an experiment of `at` refuses or what does not fit the memory in the largest of them.
std::vector<OnlineStrategy> online_strategies(const Question& question, std::string_view planner,
                                              const std::vector<Experiment>& at, std::vector<std::string>& notes);

// `times_from`: whose times it learns, so that states are not mixed.
std::unique_ptr<planners::OnlinePlanner> online_planner(std::string_view name, const Experiment& experiment,
                                                        const std::vector<OnlineStrategy>& strategies,
                                                        double bucket_length, std::string_view times_from);

struct Replay {
  std::function<planners::Evaluator(const Experiment& at)> evaluator;
  double noise = 0;
  int seed = 0;
  Talk talk = Talk::Normal;
};
// Lets the planner choose for each experiment of `at`, and tells it the evaluator's time of that strategy.
std::vector<OnlineStep> replay(const Experiment& experiment, const std::vector<Experiment>& at,
                               const std::vector<OnlineStrategy>& strategies, planners::OnlinePlanner& planner,
                               const Replay& how);

}  // namespace dovetail::bench
