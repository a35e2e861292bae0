// SPDX-License-Identifier: Apache-2.0
// NCCL between GPUs that hold a rank each. Compiled only where NCCL is found.
#pragma once
#include <memory>
#include <string>

#include "exec/device/device_network.hpp"

namespace dovetail::exec {

// The id that rank 0 makes and all others must know before they connect, however they are told.
std::string make_nccl_id();

// Connects the calling thread's GPU to those of all other ranks, which call this too. Nothing in it blocks for longer
// than the cancellation takes to be seen; after one, communicators are aborted. One rank alone sends to itself.
std::unique_ptr<DeviceNetwork> make_nccl_network(int rank, int size, const std::string& id,
                                                 const Cancellation& cancellation);

}  // namespace dovetail::exec
