// Knobs in which plans must be alike to share what was found out about one of them.
#pragma once
#include <tuple>

#include "models/plan/plan.hpp"

namespace dovetail::planners {

// Volumes alike in these have the same layer times.
inline auto volume_kind(const Plan& p) {
  return std::tuple(p.all_to_all, p.all_to_all_implementation, p.protocol, p.encoding, p.expert_sharding,
                    p.sharding_repeats, p.micro_batches);
}

// Plans alike in these hold the same rows over from the forward to the backward pass.
inline auto memory_kind(const Plan& p) {
  return std::tuple(p.restore, p.buffers, p.scope, p.split, p.encoding, p.expert_sharding, p.sharding_repeats,
                    p.pipeline_schedule, p.micro_batches);
}

}  // namespace dovetail::planners
