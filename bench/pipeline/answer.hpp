// SPDX-License-Identifier: Apache-2.0
// All candidates of a question side by side.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "bench/cli/interrupt.hpp"
#include "bench/cli/options.hpp"
#include "bench/pipeline/evaluate.hpp"
#include "models/results/result.hpp"

namespace dovetail::bench {

struct Answers {
  std::vector<SystemResult> results;  // in the order of the candidates
  std::vector<RefusedSystem> refused;
};

// `refine`, where given, adds to what a planner said. A system that cannot do what is asked is left out with its
// reason; where none can, the first reason is thrown, and that of a plan file always. Planners that look at all plans
// come last, since the others' results are theirs to beat. Memory with addresses is planned where the options show it.
using Refine = std::function<void(const Candidate&, planners::PlanChoice&)>;
Answers answer(const Question& question, Evaluation& evaluation, ProgressLine& progress, const Options& options,
               const Refine& refine = {});

}  // namespace dovetail::bench
