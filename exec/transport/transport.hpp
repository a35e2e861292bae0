// SPDX-License-Identifier: Apache-2.0
// Moves data between ranks on hosts. A communicator is one rank's end of one group on one communication stream, so that
// collectives of different streams never wait for each other. Its calls return when their work is done, and say when
// that was by the clock of emulated ops. Devices have an interface of their own (device_network.hpp), whose calls only
// give work to a queue.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "models/schedule/op.hpp"

namespace dovetail::exec {

enum class Element { Float, Double };

// The operands of one member. `count` elements make a block; the members of a group pass equal counts.
struct Exchange {
  const void* send = nullptr;
  void* receive = nullptr;
  std::int64_t count = 0;
  Element element = Element::Float;
  double ready = 0;  // virtual time at which this member could begin
};

template <class Scalar>
constexpr Element element_of() {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>);
  return std::is_same_v<Scalar, float> ? Element::Float : Element::Double;
}

template <class Scalar>
Exchange exchange(const Scalar* send, Scalar* receive, std::int64_t count, double ready) {
  return {send, receive, count, element_of<Scalar>(), ready};
}

// Messages of send_receive, in elements. `peer` is a group rank, and may be the own one.
struct Send {
  int peer = 0;
  const void* data = nullptr;
  std::int64_t count = 0;
};
struct Receive {
  int peer = 0;
  void* data = nullptr;
  std::int64_t count = 0;
};

// Collectives: all members call the same ones in the same order. Each returns the latest `ready` of the group and
// throws Cancelled after Transport::cancel. Sums are taken in group order, so that they are deterministic. Buffers
// must not overlap, but for all_reduce, whose `send` may be its `receive`.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // in the group
  virtual int size() const = 0;

  virtual double all_to_all(const Exchange& e) = 0;           // send and receive: a block per member
  virtual double all_gather(const Exchange& e) = 0;           // send: a block; receive: a block per member
  virtual double reduce_scatter(const Exchange& e) = 0;       // send: a block per member; receive: a block
  virtual double all_reduce(const Exchange& e) = 0;           // send and receive: a block
  virtual double broadcast(const Exchange& e, int root) = 0;  // send: a block, of the root; receive: a block
  virtual double reduce(const Exchange& e, int root) = 0;     // send: a block; receive: a block, of the root
  // The one of this kind; Send and None throw InternalError.
  double collective(Collective kind, const Exchange& e, int root);

  // All messages together, in the manner of a group of NCCL sends and receives: a member's n-th message to a peer is
  // the peer's n-th from it, of equal count. Members without messages call it too.
  virtual double send_receive(std::span<const Send> sends, std::span<const Receive> receives, Element element,
                              double ready) = 0;

  // Sends from one member to another. The sender does not wait, and may reuse its buffer; `tag` tells the messages of a
  // step apart. take() returns the later `ready` of the two.
  virtual void post(const Exchange& e, int to, int tag) = 0;
  virtual double take(const Exchange& e, int tag) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<int> local_ranks() const = 0;  // those of this process
  // Lives as long as the transport.
  virtual Communicator& communicator(int rank, StreamId stream, GroupKind kind) = 0;
  // Ranks of all processes on this machine: they share its cores, memory and steady clock.
  virtual int machine_ranks() const = 0;
  // Element-wise over all processes, called by all of them between steps; either also aligns them. All get the same
  // figures; sums are taken in the order of the ranks.
  virtual void maximum(std::span<double> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  // Ends all waits, from any thread. The transport cannot be used after it.
  virtual void cancel() = 0;
};

}  // namespace dovetail::exec
