// Moves data between devices that hold a rank each: NCCL between GPUs; between stand-in devices of host memory, copies.
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

// A sum, made element by element in its own format (bf16 in any order and precision).
struct DeviceSum {
  const void* send = nullptr;
  void* receive = nullptr;
  std::int64_t count = 0;  // of the result on each rank
  Stored stored = Stored::Float;
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
  virtual void all_gather(Queue& queue, const void* send, void* receive, std::int64_t bytes) = 0;  // sent by each
  virtual void broadcast(Queue& queue, const void* send, void* receive, std::int64_t bytes, int root) = 0;
  virtual void reduce_scatter(Queue& queue, const DeviceSum& sum) = 0;
  virtual void all_reduce(Queue& queue, const DeviceSum& sum) = 0;  // `send` may be `receive`
  virtual void reduce(Queue& queue, const DeviceSum& sum, int root) = 0;
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

// Joins ranks that are threads of this process, each with a host device. A cancellation ends their waits.
std::vector<std::unique_ptr<DeviceNetwork>> make_host_networks(int ranks, const Cancellation& cancellation);

}  // namespace dovetail::exec
