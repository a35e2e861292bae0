// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/mpi_transport.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "exec/transport/mpi_calls.hpp"
#include "exec/transport/mpi_outbox.hpp"
#include "exec/transport/sums.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// The members of a group tell each other this in each collective.
struct Announcement {
  double ready = 0;
  std::int64_t count = 0;
};

std::byte* at(void* data, std::int64_t elements, Element element) {
  return static_cast<std::byte*>(data) + static_cast<std::size_t>(elements) * size_of(element);
}
const std::byte* at(const void* data, std::int64_t elements, Element element) {
  return static_cast<const std::byte*>(data) + static_cast<std::size_t>(elements) * size_of(element);
}

// A message in the bytes of `post`: the time at which it is ready, then the elements.
std::vector<std::byte> packed(const Exchange& e) {
  std::vector<std::byte> message(sizeof e.ready + static_cast<std::size_t>(e.count) * size_of(e.element));
  std::memcpy(message.data(), &e.ready, sizeof e.ready);
  std::memcpy(message.data() + sizeof e.ready, e.send, message.size() - sizeof e.ready);
  return message;
}

// The messages of one collective of one member: begun one by one, then completed together.
class Messages {
 public:
  Messages(MPI_Comm comm, const std::vector<int>& members, int tag, Element element)
      : comm_(comm),
        members_(members),
        tag_(tag),
        type_(element == Element::Float ? MPI_FLOAT : MPI_DOUBLE),
        announcements_(members.size()) {}

  void send(std::size_t member, const void* data, std::int64_t count) {
    if (count == 0) return;
    check_mpi("MPI_Isend", MPI_Isend(data, number(count), type_, members_[member], data_tag(), comm_, next()));
  }
  void receive(std::size_t member, void* data, std::int64_t count) {
    if (count == 0) return;
    check_mpi("MPI_Irecv", MPI_Irecv(data, number(count), type_, members_[member], data_tag(), comm_, next()));
  }
  void announce(std::size_t own, const Announcement& mine) {
    announcements_[own] = mine;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      if (m == own) continue;
      check_mpi("MPI_Irecv", MPI_Irecv(&announcements_[m], sizeof mine, MPI_BYTE, members_[m], tag_, comm_, next()));
      check_mpi("MPI_Isend", MPI_Isend(&announcements_[own], sizeof mine, MPI_BYTE, members_[m], tag_, comm_, next()));
    }
  }
  void complete(const Cancellation& cancellation) { exec::complete(requests_, cancellation); }
  const std::vector<Announcement>& announcements() const { return announcements_; }

 private:
  int data_tag() const { return tag_ + 1; }
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  static int number(std::int64_t count) {
    if (count > std::numeric_limits<int>::max())
      throw DeviceError("MPI_Isend", "a message of more than 2^31 elements, which MPI cannot count: use more chunks");
    return static_cast<int>(count);
  }

  MPI_Comm comm_;
  const std::vector<int>& members_;
  int tag_;
  MPI_Datatype type_;
  std::vector<Announcement> announcements_;  // by member
  std::vector<MPI_Request> requests_;
};

class MpiCommunicator final : public Communicator {
 public:
  // `comm` is that of the stream, `posts` that of messages which any stream takes.
  MpiCommunicator(std::vector<int> members, int own, GroupKind kind, MPI_Comm comm, MPI_Comm posts, MpiOutbox& outbox,
                  const Cancellation& cancellation)
      : members_(std::move(members)),
        rank_(static_cast<std::size_t>(std::ranges::find(members_, own) - members_.begin())),
        tag_(2 * static_cast<int>(kind)),
        comm_(comm),
        posts_(posts),
        outbox_(outbox),
        cancellation_(cancellation) {}
  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(members_.size()); }

  double all_to_all(const Exchange& e) override {
    Messages messages = begin(e.element);
    const auto block = [&](std::size_t m) { return static_cast<std::int64_t>(m) * e.count; };
    for_others([&](std::size_t m) {
      messages.receive(m, at(e.receive, block(m), e.element), e.count);
      messages.send(m, at(e.send, block(m), e.element), e.count);
    });
    std::memcpy(at(e.receive, block(rank_), e.element), at(e.send, block(rank_), e.element), bytes(e));
    return meet(messages, e.ready, e.count);
  }

  double all_gather(const Exchange& e) override {
    Messages messages = begin(e.element);
    for_others([&](std::size_t m) {
      messages.receive(m, at(e.receive, static_cast<std::int64_t>(m) * e.count, e.element), e.count);
      messages.send(m, e.send, e.count);
    });
    std::memcpy(at(e.receive, static_cast<std::int64_t>(rank_) * e.count, e.element), e.send, bytes(e));
    return meet(messages, e.ready, e.count);
  }

  double reduce_scatter(const Exchange& e) override {
    return sum_shares(
        e, [&](std::size_t m) { return static_cast<std::int64_t>(m) * e.count; }, e.receive);
  }

  // Each member sums its share of the elements, then all fetch the others' shares.
  double all_reduce(const Exchange& e) override {
    const auto share = [&](std::size_t m) { return e.count * static_cast<std::int64_t>(m) / size(); };
    const double ready = sum_shares(e, share, at(e.receive, share(rank_), e.element));
    Messages messages = begin(e.element);
    for_others([&](std::size_t m) {
      messages.receive(m, at(e.receive, share(m), e.element), share(m + 1) - share(m));
      messages.send(m, at(e.receive, share(rank_), e.element), share(rank_ + 1) - share(rank_));
    });
    messages.complete(cancellation_);
    return ready;
  }

  double broadcast(const Exchange& e, int root) override {
    Messages messages = begin(e.element);
    if (rank() == root) {
      for_others([&](std::size_t m) { messages.send(m, e.send, e.count); });
      std::memcpy(e.receive, e.send, bytes(e));
    } else {
      messages.receive(static_cast<std::size_t>(root), e.receive, e.count);
    }
    return meet(messages, e.ready, e.count);
  }

  double reduce(const Exchange& e, int root) override {
    Messages messages = begin(e.element);
    if (rank() == root) return receive_and_sum(messages, e, e.send, e.count, e.receive);
    messages.send(static_cast<std::size_t>(root), e.send, e.count);
    return meet(messages, e.ready, e.count);
  }

  // MPI keeps the order of a pair's messages.
  double send_receive(std::span<const Send> sends, std::span<const Receive> receives, Element element,
                      double ready) override {
    Messages messages = begin(element);
    for (const Receive& r : receives) messages.receive(static_cast<std::size_t>(r.peer), r.data, r.count);
    for (const Send& s : sends) messages.send(static_cast<std::size_t>(s.peer), s.data, s.count);
    return meet(messages, ready, 0);
  }

  void post(const Exchange& e, int to, int tag) override {
    outbox_.post(packed(e), members_[static_cast<std::size_t>(to)], tag);
  }

  double take(const Exchange& e, int tag) override {
    double ready = 0;
    std::vector<std::byte> message(sizeof ready + bytes(e));
    std::vector<MPI_Request> request(1, MPI_REQUEST_NULL);
    check_mpi("MPI_Irecv", MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_BYTE, MPI_ANY_SOURCE, tag,
                                     posts_, request.data()));
    complete(request, cancellation_);
    std::memcpy(&ready, message.data(), sizeof ready);
    std::memcpy(e.receive, message.data() + sizeof ready, bytes(e));
    return std::max(e.ready, ready);
  }

 private:
  static std::size_t bytes(const Exchange& e) { return static_cast<std::size_t>(e.count) * size_of(e.element); }
  Messages begin(Element element) const { return {comm_, members_, tag_, element}; }

  template <class Visit>
  void for_others(Visit visit) const {
    for (std::size_t m = 0; m < members_.size(); ++m)
      if (m != rank_) visit(m);
  }

  // Completes what was begun; returns the latest `ready` of the group.
  double meet(Messages& messages, double ready, std::int64_t count) const {
    messages.announce(rank_, {ready, count});
    messages.complete(cancellation_);
    for (const Announcement& a : messages.announcements()) {
      check(a.count == count, "members of a group exchange different counts");
      ready = std::max(ready, a.ready);
    }
    return ready;
  }

  // to[i] = sum over the members' elements from `first(own rank)` on, up to the next member's.
  template <class First>
  double sum_shares(const Exchange& e, First first, void* to) const {
    Messages messages = begin(e.element);
    for_others([&](std::size_t m) { messages.send(m, at(e.send, first(m), e.element), first(m + 1) - first(m)); });
    return receive_and_sum(messages, e, at(e.send, first(rank_), e.element), first(rank_ + 1) - first(rank_), to);
  }

  double receive_and_sum(Messages& messages, const Exchange& e, const void* own, std::int64_t count, void* to) const {
    double ready = 0;
    with_type(e.element, [&](auto zero) {
      using Scalar = decltype(zero);
      const auto n = static_cast<std::size_t>(count);
      std::vector<Scalar> received(n * members_.size());
      std::vector<const Scalar*> from(members_.size(), static_cast<const Scalar*>(own));
      for_others([&](std::size_t m) {
        messages.receive(m, &received[m * n], count);
        from[m] = &received[m * n];
      });
      ready = meet(messages, e.ready, e.count);
      sum_in_order<Scalar>(from, count, static_cast<Scalar*>(to));
    });
    return ready;
  }

  std::vector<int> members_;  // their ranks
  std::size_t rank_;          // own, in the group
  int tag_;                   // of announcements; that of data is the next one
  MPI_Comm comm_, posts_;
  MpiOutbox& outbox_;
  const Cancellation& cancellation_;
};

// A communicator of its own, so that its messages meet no others.
class OwnComm {
 public:
  OwnComm() { check_mpi("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &comm_)); }
  ~OwnComm() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  OwnComm(OwnComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  OwnComm& operator=(OwnComm&&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

int ranks_on_machine() {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi("MPI_Comm_split_type",
            MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
  int ranks = 0;
  MPI_Comm_size(machine, &ranks);
  MPI_Comm_free(&machine);
  return ranks;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(const Parallelism& parallelism, int streams)
      : machine_ranks_(ranks_on_machine()), streams_(static_cast<std::size_t>(streams)), outbox_(posts_.get()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (StreamId stream{0}; stream < streams; ++stream)
      for (const auto& [name, kind] : group_kind_names)
        communicators_.try_emplace({stream, kind}, group_members(parallelism, kind, rank_), rank_, kind,
                                   streams_[static_cast<std::size_t>(stream)].get(), posts_.get(), outbox_,
                                   cancellation_);
  }

  std::string_view name() const override { return "mpi"; }
  std::vector<int> local_ranks() const override { return {rank_}; }
  Communicator& communicator(int rank, StreamId stream, GroupKind kind) override {
    check(rank == rank_, "a communicator of another process");
    return communicators_.at({stream, kind});
  }
  int machine_ranks() const override { return machine_ranks_; }

  void maximum(std::span<double> values) override {
    combine(values, [](double a, double b) { return std::max(a, b); });
  }
  void sum(std::span<double> values) override {
    combine(values, [](double a, double b) { return a + b; });
  }
  void cancel() override { cancellation_.request(); }

 private:
  // One element more than is asked for, since gathering nothing would align nobody.
  template <class Combine>
  void combine(std::span<double> values, Combine two) {
    std::vector<double> own(values.begin(), values.end());
    own.push_back(0);
    std::vector<double> all(own.size() * static_cast<std::size_t>(size_));
    std::vector<MPI_Request> request(1, MPI_REQUEST_NULL);
    const int count = static_cast<int>(own.size());
    check_mpi("MPI_Iallgather", MPI_Iallgather(own.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE,
                                               control_.get(), request.data()));
    complete(request, cancellation_);
    std::copy_n(all.begin(), values.size(), values.begin());
    for (std::size_t first = own.size(); first < all.size(); first += own.size())
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = two(values[i], all[first + i]);
  }

  int rank_ = 0, size_ = 1, machine_ranks_;
  OwnComm control_, posts_;
  std::vector<OwnComm> streams_;  // by stream
  Cancellation cancellation_;
  MpiOutbox outbox_;
  std::map<std::pair<StreamId, GroupKind>, MpiCommunicator> communicators_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(const Parallelism& parallelism, int streams) {
  return std::make_unique<MpiTransport>(parallelism, streams);
}

}  // namespace dovetail::exec
