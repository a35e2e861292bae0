// SPDX-License-Identifier: Apache-2.0
// The least that any plan computes on a pipeline stage in both passes of a micro-batch: its products at the best rates
// of all shapes.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::planners {

struct LeastCompute {
  Seconds dense, moe;   // a layer of that kind; 0 where the model has none
  Seconds first, last;  // what the first and last stage have beside layers
};

// For one question: its cluster, model and costs. Looks at each kind of stage once.
class LeastComputeTable {
 public:
  // The experiment is laid out (with_layout()). Throws InputError where the plan is refused or a cost is missing.
  const LeastCompute& of(const Experiment& experiment, const Plan& plan);

 private:
  std::map<std::vector<std::int64_t>, LeastCompute> known_;
  std::optional<Shared<Calibration>> costs_;  // that no chunk undercuts
};

}  // namespace dovetail::planners
