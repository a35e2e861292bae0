// SPDX-License-Identifier: Apache-2.0
// A schedule of unlike ranks: its ops once for each class of them.
#pragma once
#include "models/network/folded_network.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// In place of each op of all ranks come its twins (Schedule::twins), one for each class of ranks, on streams and
// tensors of their own. The schedule stays as it is where the cluster has no described network, with pipeline stages
// (each is a class already) and where all ranks are alike.
Schedule split_by_class(const Experiment& experiment, Schedule schedule);

}  // namespace dovetail
