// SPDX-License-Identifier: Apache-2.0
// Ops that move data between ranks, where each rank has a device of its own: what one rank asks of its communicator.
#pragma once
#include "exec/device/device_network.hpp"
#include "exec/device/group_op.hpp"

namespace dovetail::exec {

// Records ops that exchange, and stage receives. The communicator must outlive the recorded work.
template <class Scalar>
void record_collective(Recorder& out, const GroupMember& self, DeviceCommunicator& communicator);

}  // namespace dovetail::exec
