// SPDX-License-Identifier: Apache-2.0
// The rows that each expert takes, where the workload's capacity factor leaves them open, and what a micro-batch is.
#pragma once
#include "models/question/experiment.hpp"

namespace dovetail {

// Sets workload.capacity_rows where f <= 0 from the largest load of the whole batch, f < 0 capped at |f|; clears it
// where f > 0. Loads are those of workload.router_loads or, without, of the routing model.
void resolve_capacity(Experiment& experiment);

// The same experiment with the samples of one of `micro_batches` equal parts of the batch, and their capacity.
Experiment one_micro_batch(Experiment experiment, int micro_batches);

}  // namespace dovetail
