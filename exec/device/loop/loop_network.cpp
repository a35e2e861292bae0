// SPDX-License-Identifier: Apache-2.0
// The network of stand-in devices: messages are copied into a box and out of it, and all else is made of messages. Each
// call gives the queue two pieces of work, one that sends and one that receives what has arrived.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "exec/device/device_network.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

using ByteVector = std::vector<std::byte>;

// The messages that are under way between threads.
class Letters {
 public:
  using Way = std::tuple<int, int, int>;  // communicator, from, to: global ranks

  explicit Letters(const Cancellation& cancellation) : cancellation_(cancellation) {}
  const Cancellation& cancellation() const { return cancellation_; }

  void send(const Way& way, const void* data, std::int64_t bytes) {
    const auto* const first = static_cast<const std::byte*>(data);
    const std::scoped_lock lock(mutex_);
    waiting_[way].emplace_back(first, first + bytes);
    arrived_.notify_all();
  }
  // Throws Cancelled after a cancellation.
  bool has(const std::map<Way, std::size_t>& expected) {
    cancellation_.check();
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(expected, [&](const auto& e) { return waiting_[e.first].size() >= e.second; });
  }
  ByteVector receive(const Way& way) {
    std::unique_lock lock(mutex_);
    std::deque<ByteVector>& messages = waiting_[way];
    // A cancellation has no way to wake this thread.
    while (!arrived_.wait_for(lock, std::chrono::milliseconds(20), [&] { return !messages.empty(); }))
      cancellation_.check();
    ByteVector message = std::move(messages.front());
    messages.pop_front();
    return message;
  }

 private:
  const Cancellation& cancellation_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Way, std::deque<ByteVector>> waiting_;
};

template <class Scalar>
void add(const ByteVector& part, ByteVector& sum) {
  for (std::size_t at = 0; at < sum.size(); at += sizeof(Scalar)) {
    Scalar a, b;
    std::memcpy(&a, &sum[at], sizeof a);
    std::memcpy(&b, &part[at], sizeof b);
    a = narrow<Scalar>(wide(a) + wide(b));
    std::memcpy(&sum[at], &a, sizeof a);
  }
}

void add(Stored stored, const ByteVector& part, ByteVector& sum) {
  check(part.size() == sum.size(), "members sum ranges of other sizes");
  switch (stored) {
    case Stored::Double:
      return add<double>(part, sum);
    case Stored::Float:
      return add<float>(part, sum);
    case Stored::Bf16:
      return add<Bf16>(part, sum);
    case Stored::Fp8:
      break;
  }
  throw InternalError("fp8 is not summed");
}

class LoopCommunicator final : public DeviceCommunicator {
 public:
  LoopCommunicator(Letters& letters, int number, std::span<const int> members, int own)
      : letters_(letters),
        number_(number),
        members_(members.begin(), members.end()),
        rank_(static_cast<int>(std::ranges::find(members_, own) - members_.begin())) {
    check(rank_ < size(), "a communicator of other ranks");
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  void send_receive(Queue& queue, std::span<const DeviceSend> sends, std::span<const DeviceReceive> receives) override {
    queue.loop([this, all = std::vector(sends.begin(), sends.end())] {
      for (const DeviceSend& s : all) send(s.peer, s.data, s.bytes);
    });
    std::vector<int> senders;
    for (const DeviceReceive& r : receives) senders.push_back(r.peer);
    when_arrived(queue, senders, [this, all = std::vector(receives.begin(), receives.end())] {
      for (const DeviceReceive& r : all) put(receive(r.peer), r.data, r.bytes);
    });
  }
  // Each block goes as a message, also to the member itself.
  void collective(Queue& queue, const DeviceCollective& c) override {
    const bool scatters = c.kind == Collective::ReduceScatter, gathers = c.kind == Collective::AllGather,
               sums = scatters || c.kind == Collective::AllReduce || c.kind == Collective::Reduce;
    const bool from_root = c.kind == Collective::Broadcast, to_root = c.kind == Collective::Reduce;
    check(sums || gathers || from_root, "no native collective between devices");
    const std::vector<int> root{c.root}, all = everybody();
    queue.loop([=, this] {
      if (from_root && rank_ != c.root) return;
      for (int peer : to_root ? root : all)
        send(peer, static_cast<const std::byte*>(c.send) + (scatters ? peer * c.bytes : 0), c.bytes);
    });
    if (to_root && rank_ != c.root) return;
    when_arrived(queue, from_root ? root : all, [=, this] {
      if (sums) return put(receive_sum(c.stored), c.receive, c.bytes);
      for (int peer : from_root ? root : all)
        put(receive(peer), static_cast<std::byte*>(c.receive) + (gathers ? peer * c.bytes : 0), c.bytes);
    });
  }

 private:
  int global(int peer) const { return members_.at(static_cast<std::size_t>(peer)); }
  Letters::Way from(int peer) const { return {number_, global(peer), global(rank_)}; }
  std::vector<int> everybody() const {
    std::vector<int> all(members_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // Once as many messages are there from each sender as it is named.
  void when_arrived(Queue& queue, const std::vector<int>& senders, std::function<void()> receive_all) {
    std::map<Letters::Way, std::size_t> expected;
    for (int peer : senders) ++expected[from(peer)];
    queue.loop_when([&letters = letters_, expected] { return letters.has(expected); }, std::move(receive_all));
  }
  void send(int peer, const void* data, std::int64_t bytes) {
    letters_.cancellation().check();
    letters_.send({number_, global(rank_), global(peer)}, data, bytes);
  }
  ByteVector receive(int peer) { return letters_.receive(from(peer)); }
  static void put(const ByteVector& message, void* to, std::int64_t bytes) {
    check(std::ssize(message) == bytes, "a message of another size than is received");
    if (bytes > 0) std::memcpy(to, message.data(), message.size());
  }
  ByteVector receive_sum(Stored stored) {
    ByteVector sum = receive(0);
    for (int peer = 1; peer < size(); ++peer) add(stored, receive(peer), sum);
    return sum;
  }

  Letters& letters_;
  int number_;
  std::vector<int> members_;
  int rank_;
};

class LoopNetwork final : public DeviceNetwork {
 public:
  LoopNetwork(std::shared_ptr<Letters> letters, int rank, int size)
      : letters_(std::move(letters)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<DeviceCommunicator> communicator(std::span<const int> members) override {
    const int number = next_++;
    if (members.empty()) return nullptr;
    return std::make_unique<LoopCommunicator>(*letters_, number, members, rank_);
  }
  void check() override { letters_->cancellation().check(); }

 private:
  std::shared_ptr<Letters> letters_;
  int rank_, size_, next_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<DeviceNetwork>> make_loop_networks(int ranks, const Cancellation& cancellation) {
  const auto letters = std::make_shared<Letters>(cancellation);
  std::vector<std::unique_ptr<DeviceNetwork>> networks;
  for (int rank = 0; rank < ranks; ++rank) networks.push_back(std::make_unique<LoopNetwork>(letters, rank, ranks));
  return networks;
}

}  // namespace dovetail::exec
