// SPDX-License-Identifier: Apache-2.0
// Knobs in which plans must be alike to share what was found out about one of them.
#pragma once
#include <cstdint>
#include <vector>

#include "models/plan/knob_table.hpp"

namespace dovetail::planners {

// Plans alike in these have the same layer times.
inline std::vector<std::int64_t> volume_kind(const Plan& plan) {
  std::vector<std::int64_t> kind{plan.micro_batches};
  for (const Knob& knob : knobs())
    if (knob.group == KnobClass::Volumes) append_value(knob, plan, kind);
  return kind;
}

// Plans alike in these hold the same rows over from the forward to the backward pass.
inline std::vector<std::int64_t> memory_kind(const Plan& plan) {
  std::vector<std::int64_t> kind;
  for (const Knob& knob : knobs())
    if (knob.holds_rows) append_value(knob, plan, kind);
  return kind;
}

}  // namespace dovetail::planners
