// SPDX-License-Identifier: Apache-2.0
// Ops that move data between ranks, where all ranks of the group are on one device: copies and sums.
#pragma once
#include <vector>

#include "exec/device/rank_regions.hpp"

namespace dovetail::exec {

// Each kind of op has its own rule for the ranks of its group: those of a stage send are the sender and the
// receiver, in this order; of all others the members in group order.
bool exchanges(const Schedule& schedule, const Op& op);

// The whole of the op, for all members.
template <class Scalar>
void record_exchange(Recorder& out, const std::vector<GroupMember>& members);

}  // namespace dovetail::exec
