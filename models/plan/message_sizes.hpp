// SPDX-License-Identifier: Apache-2.0
// Who says how large messages are: the question allows routed ones, and a plan may pad them all the same.
#pragma once
#include "models/plan/plan.hpp"
#include "models/question/workload.hpp"

namespace dovetail {

inline bool sends_routed(const Plan& plan, const Workload& workload) {
  return workload.message_sizes == MessageSizes::Routed && !plan.pad_messages;
}

}  // namespace dovetail
