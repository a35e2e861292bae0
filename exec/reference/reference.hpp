// SPDX-License-Identifier: Apache-2.0
// The results that a training step must have: a naive MoE transformer, token by token in double over the data of all
// ranks. It knows nothing of schedules, groups or kernels.
#pragma once
#include "exec/reference/model_data.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/compute_rules.hpp"

namespace dovetail::exec {

struct Reference {
  Values output;  // as ModelData::input
  Values input_gradient;
  std::vector<LayerWeights> gradients;        // by layer, summed over all data
  EndWeights end_gradients;                   // of embedding, head and final norm; empty where the step has none
  Values loss;                                // of each position, as ModelData::words
  std::vector<Values> further_losses;         // the same of each layer of multi-token prediction (step/word_rule.hpp)
  std::vector<std::vector<Routing>> routing;  // by layer, and micro-batch * token_ranks + holder
  std::int64_t dropped = 0;                   // choices over capacity, over all of these
  std::int64_t largest_load = 0;              // choices of one rank for one expert, before drops
};

double gradient_norm(const Reference& reference);  // of all gradients together

// Each micro-batch of each rank is gated by itself. Forward only: gradients stay empty. A capacity that nothing has
// resolved yet (f <= 0) is as large as f allows. Chunks of tokens only decide which tokens compete for capacity.
Reference compute_reference(const Experiment& experiment, const ModelData& data, const ComputeRules& rules = {});

}  // namespace dovetail::exec
