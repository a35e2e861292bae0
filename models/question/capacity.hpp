// The rows that each expert takes, where the workload's capacity factor leaves them open, and what a micro-batch is.
#pragma once
#include <cstdint>

#include "models/question/experiment.hpp"

namespace dovetail {

// Sets workload.capacity_rows where f <= 0 from the largest load, f < 0 capped at |f|; clears it where f > 0.
void resolve_capacity(Experiment& experiment);
// The same for a load that is known otherwise.
void resolve_capacity(Experiment& experiment, std::int64_t largest_load);

// The same experiment with the samples of one of `micro_batches` equal parts of the batch.
Experiment one_micro_batch(Experiment experiment, int micro_batches);

}  // namespace dovetail
