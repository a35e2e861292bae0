// What a training step must compute: a naive MoE transformer, token by token in double over the data of all ranks.
// Knows nothing of schedules, chunks, groups or kernels.
#pragma once
#include "exec/model_data.hpp"
#include "exec/routing.hpp"

namespace dovetail::exec {

struct Reference {
  Values output;  // as ModelData::input
  Values input_gradient;
  std::vector<LayerWeights> gradients;        // by layer, summed over all data
  std::vector<std::vector<Routing>> routing;  // by layer, and micro-batch * data ranks + rank
  std::int64_t dropped = 0;                   // choices over capacity, over all of these
};

// Each micro-batch of each rank is gated by itself. Forward only: gradients stay empty.
Reference compute_reference(const Experiment& experiment, const ModelData& data, int micro_batches = 1);

}  // namespace dovetail::exec
