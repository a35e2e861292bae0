// SPDX-License-Identifier: Apache-2.0
// How a plan lets an expert's rows and its weights meet: shards on one rank each (ep), gathered weights (ep_dp), rows
// repeated to shards (ep_mp), shadowed experts. Tutel section 3.2, FasterMoE section 4.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {

// To how many of the esp shards of its expert a row is sent: r of 1 (ep, ep_dp) to esp.
int sharding_repeats(const Plan& plan, const Parallelism& parallelism);

// Rows exchanged among ep r ranks, esp / r apart, and collectives of shards among the esp / r next to each other: the
// groups Ep and Esp of the parallelism with these sizes. An expert then is r slices of its hidden size.
Parallelism exchange_groups(const Plan& plan, const Parallelism& parallelism);

LayerVolumes layer_volumes(const Experiment& experiment, const Plan& plan, int layer);
LayerVolumes layer_volumes(const Experiment& experiment, const Plan& plan);  // of the first MoE layer

// Rules of plan_rules.hpp: each throws InputError for knobs that contradict each other or the experiment.
void require_sharding(const Plan& plan, const Experiment& experiment);
void require_shadowed(const Plan& plan, const Experiment& experiment);
void require_peers(const Plan& plan, const Experiment& experiment);
void require_built_together(const Plan& plan, const Experiment& experiment);

}  // namespace dovetail
