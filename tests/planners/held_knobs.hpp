// SPDX-License-Identifier: Apache-2.0
// Settings that a user may have fixed, so that what is left open can be enumerated.
#pragma once
#include <functional>

#include "models/plan/plan.hpp"

namespace dovetail::test {

// Holds some knobs to those of `plan`, by the bits of `which`.
inline std::function<void(Plan&)> hold_some(const Plan& plan, unsigned which) {
  return [plan, which](Plan& p) {
    const auto held = [which](unsigned knob) { return ((which >> knob) & 1U) != 0; };
    if (held(0)) p.scope = plan.scope, p.split = plan.split, p.peer_group = plan.peer_group;
    if (held(1)) p.order = plan.order;
    if (held(2)) p.comm_streams = plan.comm_streams;
    if (held(3)) {
      p.all_to_all = plan.all_to_all;
      p.all_to_all_implementation = plan.all_to_all_implementation;
      p.all_to_all_levels = plan.all_to_all_levels;
    }
    if (held(4)) p.encoding = plan.encoding;
    if (held(5)) p.expert_sharding = plan.expert_sharding, p.sharding_repeats = plan.sharding_repeats;
    if (held(6)) p.restore = plan.restore, p.buffers = plan.buffers;
    if (held(7)) p.pipeline_schedule = plan.pipeline_schedule, p.micro_batches = plan.micro_batches;
    if (held(8)) p.protocol = plan.protocol;
  };
}

}  // namespace dovetail::test
