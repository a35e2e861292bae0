// SPDX-License-Identifier: Apache-2.0
// FSMoE's own way to split gradients (section 5): each window first takes what it hides, then differential evolution
// (Storn and Price 1997, best/1/bin) shares what is left among the MoE layers. A reference for the exact
// partition_gradients(), which it approaches and never beats.
#pragma once
#include "planners/closed_form/gradient_partition.hpp"

namespace dovetail::planners {

struct Evolution {
  int members_per_layer = 15;  // as SciPy's defaults, and so are the shares of mutation and crossover
  int generations = 200;       // at most; ends when all members are within .01 % of one another
  unsigned seed = 1;
};
GradientPartition evolve_partition(const GradientProblem& problem, const Evolution& settings);
GradientPartition evolve_partition(const GradientProblem& problem);

}  // namespace dovetail::planners
