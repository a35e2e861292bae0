// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/echo_transport.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "exec/transport/sums.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// As many of the sent elements as fit; zeros where more are awaited.
void deliver(const void* send, std::int64_t sent, void* receive, std::int64_t awaited, Element element) {
  const std::size_t each = size_of(element);
  const auto both = static_cast<std::size_t>(std::min(sent, awaited)) * each;
  if (both > 0) std::memcpy(receive, send, both);
  const std::size_t rest = static_cast<std::size_t>(awaited) * each - both;
  if (rest > 0) std::memset(static_cast<std::byte*>(receive) + both, 0, rest);
}

class EchoCommunicator final : public Communicator {
 public:
  EchoCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  double all_to_all(const Exchange& e) override { return copy(e.send, e, size_); }
  double all_gather(const Exchange& e) override {
    for (int member = 0; member < size_; ++member)
      copy(e.send, {nullptr, at(e.receive, e, member), e.count, e.element}, 1);
    return e.ready;
  }
  double reduce_scatter(const Exchange& e) override { return copy(at(e.send, e, rank_), e, 1); }
  double all_reduce(const Exchange& e) override { return e.send == e.receive ? e.ready : copy(e.send, e, 1); }
  double broadcast(const Exchange& e, int root) override {
    deliver(e.send, root == rank_ ? e.count : 0, e.receive, e.count, e.element);
    return e.ready;
  }
  double reduce(const Exchange& e, int root) override { return root == rank_ ? copy(e.send, e, 1) : e.ready; }

  // The n-th message to a peer is the n-th from it.
  double send_receive(std::span<const Send> sends, std::span<const Receive> receives, Element element,
                      double ready) override {
    std::vector<std::size_t> next(static_cast<std::size_t>(size_));  // by peer
    for (const Receive& r : receives) {
      std::size_t& at = next.at(static_cast<std::size_t>(r.peer));
      while (at < sends.size() && sends[at].peer != r.peer) ++at;
      const Send sent = at < sends.size() ? sends[at++] : Send{};
      deliver(sent.data, sent.count, r.data, r.count, element);
    }
    return ready;
  }

  void post(const Exchange&, int, int) override { throw InternalError("one rank has no other pipeline stage"); }
  double take(const Exchange&, int) override { throw InternalError("one rank has no other pipeline stage"); }

 private:
  template <class Pointer>
  static Pointer at(Pointer first, const Exchange& e, int block) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
    return static_cast<Byte*>(first) + static_cast<std::size_t>(block * e.count) * size_of(e.element);
  }
  static double copy(const void* from, const Exchange& e, int blocks) {
    deliver(from, blocks * e.count, e.receive, blocks * e.count, e.element);
    return e.ready;
  }

  int rank_, size_;
};

class EchoTransport final : public Transport {
 public:
  EchoTransport(const Parallelism& parallelism, int rank, int streams) : rank_(rank) {
    for (StreamId stream{0}; stream < streams; ++stream)
      for (const auto& [name, kind] : group_kind_names) {
        const std::vector<int> members = group_members(parallelism, kind, rank);
        const auto self = std::ranges::find(members, rank) - members.begin();
        communicators_.try_emplace({stream, kind}, static_cast<int>(self), static_cast<int>(members.size()));
      }
  }

  std::string_view name() const override { return "echo"; }
  std::vector<int> local_ranks() const override { return {rank_}; }
  Communicator& communicator(int, StreamId stream, GroupKind kind) override {
    return communicators_.at({stream, kind});
  }
  int machine_ranks() const override { return 1; }
  void maximum(std::span<double>) override {}
  void sum(std::span<double>) override {}
  void cancel() override {}  // nothing waits

 private:
  int rank_;
  std::map<std::pair<StreamId, GroupKind>, EchoCommunicator> communicators_;
};

}  // namespace

std::unique_ptr<Transport> make_echo_transport(const Parallelism& parallelism, int rank, int streams) {
  return std::make_unique<EchoTransport>(parallelism, rank, streams);
}

}  // namespace dovetail::exec
