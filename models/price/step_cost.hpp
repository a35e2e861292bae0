// SPDX-License-Identifier: Apache-2.0
// The cost of the steps of an all-to-all: by message if the calibration knows messages, otherwise alpha + n beta.
#pragma once
#include <array>

#include "models/plan/collectives/step.hpp"
#include "models/price/collective_price.hpp"
#include "models/schedule/op.hpp"

namespace dovetail {

// Indexed by InterferenceClass: copies take Compute, exchanges take Inter and Intra.
using StepCost = std::array<ResourceTime, interference_class_names.size()>;

// Resources work side by side: the longest `fixed`, then the longest `busy`.
Seconds fixed_of(const StepCost& cost);
Seconds duration_of(const StepCost& cost);

// The steps one after the other in one launch. `work` holds what they do together: message, copy_traffic and
// protocol; no steps are one exchange in the whole group. Throws InputError for costs that the calibration lacks (those
// of low_latency messages validate(plan) has refused). Without costs by message an exchange of many runs costs alpha
// for each, and a gather or scatter what an all-gather of the gathered buffer does.
StepCost step_cost(const Calibration& calibration, std::span<const CollectiveStep> steps, const ExchangeWork& work,
                   const GroupPlace& place);

// An exchange that sends a token to a node once, in one kernel: between nodes among the ranks of the same place, and
// inside the node at the same time. `tokens` and `copies` (one for each rank that a token goes to) are rows of the
// kernel (KernelKind::Dispatch or Combine) that the calibration may have measured inside a node.
struct RelayKernel {
  KernelKind kind = KernelKind::Dispatch;
  std::int64_t tokens = 0, copies = 0;
  Bytes row;
  int multiprocessors = 0;
};
StepCost relay_cost(const Calibration& calibration, const ExchangeWork& work, const GroupPlace& place,
                    const RelayKernel& kernel);

}  // namespace dovetail
