// What the closed forms need to know of an experiment: the times of one layer's parts, read off the priced
// sequential schedule. An op's fixed time is the alpha of a chunk, the rest is shared among chunks.
#pragma once
#include <cstdint>

#include "models/experiment.hpp"
#include "models/plan.hpp"
#include "planners/four_case.hpp"

namespace dovetail::planners {

// One phase of one layer. Each op is named by what the phase does at that place: backward, `decode` is its first op
// and `encode` follows the experts.
struct PhaseTimes {
  MoeTimes moe;
  Seconds encode, gate, decode;
  Seconds attention;
  Seconds mp_before, mp_after;  // model-parallel collectives before and after attention; 0 without model parallelism

  Seconds dense() const { return encode + gate + decode + attention + mp_before + mp_after; }
};

// All layers are alike.
struct LayerTimes {
  int layers = 0;
  std::int64_t capacity = 0;        // rows that are cut into chunks
  std::int64_t dense_elements = 0;  // dense gradients of one layer
  PhaseTimes forward, backward;     // backward is all 0 in a forward-only workload
  Seconds all_reduce_alpha;         // of each all-reduce of dense gradients; 0 without data parallelism
  Seconds all_reduce_per_element;
  Seconds expert_all_reduce;  // of all layers together
  Seconds update;
};

LayerTimes layer_times(const Experiment& experiment, Encoding encoding = Encoding::Sparse);

}  // namespace dovetail::planners
