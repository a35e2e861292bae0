// The planners' usual evaluator: build, price, one pass without contention.
#pragma once
#include "planners/planner.hpp"

namespace dovetail::planners {

// `experiment` must outlive the evaluator. Not for several threads at once.
Evaluator analytic_evaluator(const Experiment& experiment);

}  // namespace dovetail::planners
