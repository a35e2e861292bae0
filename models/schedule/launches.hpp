// SPDX-License-Identifier: Apache-2.0
// The kernels that the host launches, one by one or as captured graphs.
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail {

// An op that no graph holds has its products and attention, with the small kernels of its kind (op_table.hpp). An
// exchange (whose messages NCCL groups), a copy and a module known by its times are one launch, a host wait is none.
int launches_of(const Op& op);

bool is_captured(Graphs graphs, OpKind kind);

}  // namespace dovetail
