// The kernels that the host launches, one by one or as captured graphs.
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail {

// Of an op that no graph holds: its products and attention, one for an exchange (whose messages NCCL groups), a copy or
// a module known by its times, and the small kernels of its kind (op_table.hpp). A host wait launches nothing.
int launches_of(const Op& op);

bool is_captured(Graphs graphs, OpKind kind);

// By op, with the schedule's graphs. Captured ops that follow one another in the program of a rank class are one graph:
// its first op has its one launch, and the others have none.
IdVector<OpId, int> host_launches(const Schedule& schedule);

}  // namespace dovetail
