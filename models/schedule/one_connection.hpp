// SPDX-License-Identifier: Apache-2.0
// A device that takes the kernels of all streams from one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1).
#pragma once
#include "models/schedule/schedule.hpp"

namespace dovetail {

// The same ops, none of which begins before those of its rank class that stand before it have begun: it also waits for
// all that they wait for. Waits for other rank classes do not count, since a message's kernel waits while it runs. Ops
// that only the host waits for are in no queue.
void take_from_one_queue(Schedule& schedule);

}  // namespace dovetail
