// SPDX-License-Identifier: Apache-2.0
// Moves data between devices that hold a rank each: NCCL between GPUs; between stand-in devices of host memory, copies.
// Nothing here waits, unlike what moves data between ranks on hosts (transport.hpp).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/device/queue.hpp"
#include "exec/run/cancellation.hpp"

namespace dovetail::exec {

// Messages of send_receive. `peer` is a group rank, and may be the own one.
struct DeviceSend {
  int peer = 0;
  const void* data = nullptr;
  std::int64_t bytes = 0;
};
struct DeviceReceive {
  int peer = 0;
  void* data = nullptr;
  std::int64_t bytes = 0;
};

// One member's part of a collective, as of Communicator (transport.hpp): `bytes` make a block. Sums are made element by
// element in their own format (bf16 in any order and precision).
struct DeviceCollective {
  Collective kind = Collective::None;  // not AllToAll, which is messages here
  const void* send = nullptr;
  void* receive = nullptr;
  std::int64_t bytes = 0;
  Stored stored = Stored::Float;  // of what is summed
  int root = 0;                   // of a broadcast or reduce

  std::int64_t count() const { return bytes / size_of(stored); }
};

// One rank's end of a group, for one queue at a time. Each call gives work to the queue, like all that queues do; the
// members give the same calls in the same order. Throws DeviceError, and Cancelled after a cancellation.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  virtual int rank() const = 0;  // in the group
  virtual int size() const = 0;

  // All messages together: a member's n-th message to a peer is the peer's n-th from it, of equal size. Members without
  // messages need not call it.
  virtual void send_receive(Queue& queue, std::span<const DeviceSend> sends,
                            std::span<const DeviceReceive> receives) = 0;
  virtual void collective(Queue& queue, const DeviceCollective& call) = 0;  // an all-reduce may be in place
};

// One rank's end of all. Used by the thread that drives the rank's device.
class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Called by all ranks, in the same order; `members`: the ranks of the own group, in its order. Empty: of none, and
  // null is returned. Does not outlive the network.
  virtual std::unique_ptr<DeviceCommunicator> communicator(std::span<const int> members) = 0;

  // To be called while work is waited for: throws DeviceError for what failed since, Cancelled after a cancellation.
  virtual void check() = 0;
};

// Joins ranks that are threads of this process, each with a loop device. A cancellation ends their waits.
std::vector<std::unique_ptr<DeviceNetwork>> make_loop_networks(int ranks, const Cancellation& cancellation);

}  // namespace dovetail::exec
