// SPDX-License-Identifier: Apache-2.0
// Rules of plan_rules.hpp: how micro-batches go through pipeline stages.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail {

void require_stages(const Plan& plan, const Experiment& experiment);

// Two pipelines that lie against each other.
void require_two_pipelines(const Plan& plan, const Experiment& experiment);

// The half of a backward op that comes later reads what must still be there then, and modules that are known as a whole
// have no halves.
void require_halves(const Plan& plan, const Experiment& experiment);

// Scope batch needs two micro-batches that overlap, and something that overlaps.
void require_pairs(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
