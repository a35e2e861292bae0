// A schedule of unlike ranks: its ops once for each class of them.
#pragma once
#include "models/network/folded_network.hpp"
#include "models/schedule/schedule.hpp"

namespace dovetail {

// The schedule of all ranks becomes one in which op i of class c is op i K + c, on streams and tensors of its own.
// Unchanged where the cluster has no described network, with pipeline stages (each is a class already) and where all
// ranks are alike.
Schedule split_by_class(const Experiment& experiment, Schedule schedule);

}  // namespace dovetail
