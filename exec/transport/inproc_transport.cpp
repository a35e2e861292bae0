// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/inproc_transport.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "exec/transport/mailbox.hpp"
#include "exec/transport/rendezvous.hpp"
#include "exec/transport/sums.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

struct Group {
  explicit Group(std::vector<Mailbox*> of_members)
      : meeting(static_cast<int>(of_members.size())),
        exchanges(of_members.size()),
        sends(of_members.size()),
        mailboxes(std::move(of_members)) {}
  Rendezvous meeting;
  std::vector<Exchange> exchanges;  // of the members, in group order, while they meet
  std::vector<std::span<const Send>> sends;
  std::vector<Mailbox*> mailboxes;  // of the members
};

std::size_t bytes_of(std::int64_t count, Element element) {
  return static_cast<std::size_t>(count) * size_of(element);
}

std::size_t bytes_of(const Exchange& e) {
  return bytes_of(e.count, e.element);
}

const std::byte* sent_block(const Exchange& e, std::size_t block) {
  return static_cast<const std::byte*>(e.send) + block * bytes_of(e);
}

std::byte* received_block(const Exchange& e, std::size_t block) {
  return static_cast<std::byte*>(e.receive) + block * bytes_of(e);
}

// to[i] = sum over the members' send[first + i], i < count. `to` may be one of the sent ranges.
template <class Scalar>
void sum(const std::vector<Exchange>& members, std::int64_t first, std::int64_t count, Scalar* to) {
  std::vector<const Scalar*> from;
  from.reserve(members.size());
  for (const Exchange& e : members) from.push_back(static_cast<const Scalar*>(e.send) + first);
  sum_in_order<Scalar>(from, count, to);
}

class InprocCommunicator final : public Communicator {
 public:
  InprocCommunicator(Group& group, std::size_t rank) : group_(group), rank_(rank) {}
  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(group_.exchanges.size()); }

  double all_to_all(const Exchange& e) override {
    const double ready = meet(e);
    for (std::size_t m = 0; m < members().size(); ++m)
      std::memcpy(received_block(e, m), sent_block(members()[m], rank_), bytes_of(e));
    part();
    return ready;
  }

  double all_gather(const Exchange& e) override {
    const double ready = meet(e);
    for (std::size_t m = 0; m < members().size(); ++m)
      std::memcpy(received_block(e, m), members()[m].send, bytes_of(e));
    part();
    return ready;
  }

  double reduce_scatter(const Exchange& e) override {
    const double ready = meet(e);
    with_type(e.element, [&](auto zero) {
      using Scalar = decltype(zero);
      sum(members(), static_cast<std::int64_t>(rank_) * e.count, e.count, static_cast<Scalar*>(e.receive));
    });
    part();
    return ready;
  }

  // Each member sums its share of the elements, then all fetch the others' shares. In place a member writes, in
  // the first half, only the share that nobody else reads.
  double all_reduce(const Exchange& e) override {
    const double ready = meet(e);
    const auto share = [&](std::size_t m) { return e.count * static_cast<std::int64_t>(m) / size(); };
    with_type(e.element, [&](auto zero) {
      using Scalar = decltype(zero);
      Scalar* const receive = static_cast<Scalar*>(e.receive);
      sum(members(), share(rank_), share(rank_ + 1) - share(rank_), receive + share(rank_));
      part();
      for (std::size_t m = 0; m < members().size(); ++m)
        if (m != rank_)
          std::copy(static_cast<const Scalar*>(members()[m].receive) + share(m),
                    static_cast<const Scalar*>(members()[m].receive) + share(m + 1), receive + share(m));
    });
    part();
    return ready;
  }

  double broadcast(const Exchange& e, int root) override {
    const double ready = meet(e);
    std::memcpy(e.receive, members()[static_cast<std::size_t>(root)].send, bytes_of(e));
    part();
    return ready;
  }

  double reduce(const Exchange& e, int root) override {
    const double ready = meet(e);
    if (rank() == root)
      with_type(e.element, [&](auto zero) {
        using Scalar = decltype(zero);
        sum(members(), 0, e.count, static_cast<Scalar*>(e.receive));
      });
    part();
    return ready;
  }

  double send_receive(std::span<const Send> sends, std::span<const Receive> receives, Element element,
                      double ready) override {
    group_.sends[rank_] = sends;
    const double latest = meet({nullptr, nullptr, 0, element, ready});
    std::vector<std::size_t> next(group_.sends.size());  // by peer: its sends from here on are not received yet
    for (const Receive& r : receives) {
      const auto peer = static_cast<std::size_t>(r.peer);
      const std::span<const Send> theirs = group_.sends.at(peer);
      std::size_t& at = next[peer];
      while (at < theirs.size() && theirs[at].peer != rank()) ++at;
      check(at < theirs.size() && theirs[at].count == r.count, "a receive without its send");
      const Send& sent = theirs[at++];
      if (r.count > 0) std::memcpy(r.data, sent.data, bytes_of(r.count, element));  // else there may be no data
    }
    part();
    return latest;
  }

  void post(const Exchange& e, int to, int tag) override {
    const std::byte* const first = sent_block(e, 0);
    group_.mailboxes[static_cast<std::size_t>(to)]->put(tag, {{first, first + bytes_of(e)}, e.ready});
  }

  double take(const Exchange& e, int tag) override {
    const Message message = group_.mailboxes[rank_]->take(tag);
    check(message.bytes.size() == bytes_of(e), "a message of another size than is expected");
    std::ranges::copy(message.bytes, received_block(e, 0));
    return std::max(e.ready, message.ready);
  }

 private:
  const std::vector<Exchange>& members() const { return group_.exchanges; }

  double meet(const Exchange& e) {
    group_.exchanges[rank_] = e;
    group_.meeting.arrive_and_wait();
    double ready = e.ready;
    for (const Exchange& other : members()) {
      check(other.count == e.count && other.element == e.element, "members of a group exchange different counts");
      ready = std::max(ready, other.ready);
    }
    return ready;
  }
  // Nobody may reuse buffers before all have read them.
  void part() { group_.meeting.arrive_and_wait(); }

  Group& group_;
  std::size_t rank_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(const Parallelism& parallelism, int ranks, int streams)
      : ranks_(ranks), mailboxes_(static_cast<std::size_t>(ranks)) {
    for (StreamId stream{0}; stream < streams; ++stream)
      for (const auto& [name, kind] : group_kind_names)
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<int> members = group_members(parallelism, kind, rank);
          if (members.front() == rank) add_group(stream, kind, members);
        }
  }

  std::string_view name() const override { return "inproc"; }
  std::vector<int> local_ranks() const override {
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) ranks.push_back(rank);
    return ranks;
  }
  Communicator& communicator(int rank, StreamId stream, GroupKind kind) override {
    return communicators_.at({rank, stream, kind});
  }
  int machine_ranks() const override { return ranks_; }
  void maximum(std::span<double>) override {}
  void sum(std::span<double>) override {}
  void cancel() override {
    for (const auto& group : groups_) group->meeting.cancel();
    for (Mailbox& mailbox : mailboxes_) mailbox.cancel();
  }

 private:
  void add_group(StreamId stream, GroupKind kind, const std::vector<int>& members) {
    std::vector<Mailbox*> mailboxes;
    for (int member : members) mailboxes.push_back(&mailboxes_[static_cast<std::size_t>(member)]);
    groups_.push_back(std::make_unique<Group>(std::move(mailboxes)));
    for (std::size_t m = 0; m < members.size(); ++m)
      communicators_.try_emplace({members[m], stream, kind}, *groups_.back(), m);
  }

  int ranks_;
  std::vector<Mailbox> mailboxes_;  // by rank
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::tuple<int, StreamId, GroupKind>, InprocCommunicator> communicators_;
};

}  // namespace

std::unique_ptr<Transport> make_inproc_transport(const Parallelism& parallelism, int ranks, int streams) {
  return std::make_unique<InprocTransport>(parallelism, ranks, streams);
}

}  // namespace dovetail::exec
