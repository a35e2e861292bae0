#include "exec/inproc_transport.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "exec/cancellation.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

// One group of `ranks`: each rank's thread gets its communicator.
void on_each_rank(int ranks, const std::function<void(Communicator&, int)>& body) {
  Parallelism p;
  p.ep = ranks;
  const auto transport = make_inproc_transport(p, ranks, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(transport->communicator(rank, 0, GroupKind::Ep), rank); });
  for (std::thread& t : threads) t.join();
}

double element(int from, int to, int i) {
  return 100 * from + 10 * to + i + .5;
}

// Catch's assertions are not for several threads: each counts its differences instead.
template <class Scalar>
int wrong_blocks(int ranks) {
  std::atomic<int> wrong = 0;
  on_each_rank(ranks, [&](Communicator& c, int rank) {
    constexpr int count = 3;
    if (c.rank() != rank || c.size() != ranks) ++wrong;
    const auto n = static_cast<std::size_t>(ranks * count);
    std::vector<Scalar> all(n), got(n), block(count), sum(count);
    for (int m = 0; m < ranks; ++m)
      for (int i = 0; i < count; ++i)
        all[static_cast<std::size_t>(m * count + i)] = static_cast<Scalar>(element(rank, m, i));
    for (int round = 0; round < 3; ++round) {  // buffers are reused
      if (c.all_to_all(exchange(all.data(), got.data(), count, rank)) != ranks - 1) ++wrong;
      for (int m = 0; m < ranks; ++m)
        for (int i = 0; i < count; ++i)
          wrong += got[static_cast<std::size_t>(m * count + i)] != static_cast<Scalar>(element(m, rank, i));
      c.all_gather(exchange(all.data(), got.data(), count, 0));
      for (int m = 0; m < ranks; ++m)
        for (int i = 0; i < count; ++i)
          wrong += got[static_cast<std::size_t>(m * count + i)] != static_cast<Scalar>(element(m, 0, i));
      c.reduce_scatter(exchange(all.data(), block.data(), count, 0));
      sum.assign(all.begin(), all.begin() + count);
      c.all_reduce(exchange(sum.data(), sum.data(), count, 0));  // in place
      for (int i = 0; i < count; ++i) {
        Scalar scattered = 0, reduced = 0;
        for (int m = 0; m < ranks; ++m) {
          scattered += static_cast<Scalar>(element(m, rank, i));
          reduced += static_cast<Scalar>(element(m, 0, i));
        }
        wrong += block[static_cast<std::size_t>(i)] != scattered;
        wrong += sum[static_cast<std::size_t>(i)] != reduced;
      }
      const int root = round % ranks;
      if (c.broadcast(exchange(all.data(), block.data(), count, rank), root) != ranks - 1) ++wrong;
      for (int i = 0; i < count; ++i)
        wrong += block[static_cast<std::size_t>(i)] != static_cast<Scalar>(element(root, 0, i));
      const std::vector<Scalar> before = sum;
      c.reduce(exchange(all.data(), block.data(), count, 0), root);  // the others' blocks stay what they were
      for (int i = 0; i < count; ++i)
        wrong += block[static_cast<std::size_t>(i)] !=
                 (rank == root ? before[static_cast<std::size_t>(i)] : static_cast<Scalar>(element(root, 0, i)));
    }
  });
  return wrong;
}

}  // namespace

TEST_CASE("Every block of every collective arrives, in groups of 1 to 8") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CHECK(wrong_blocks<float>(ranks) == 0);
    CHECK(wrong_blocks<double>(ranks) == 0);
  }
}

TEST_CASE("Messages of a group arrive in the order of their pair, whatever their sizes") {
  std::atomic<int> wrong = 0;
  on_each_rank(4, [&](Communicator& c, int rank) {
    // Two messages to each other rank and one to itself; rank 3 only listens. Message m has m + 1 elements.
    std::vector<std::vector<double>> sent, got;
    std::vector<Send> sends;
    std::vector<Receive> receives;
    for (int m = 0; m < 2; ++m)
      for (int peer = 3; peer >= 0; --peer) {
        if (m == 1 && peer == rank) continue;
        const auto size = static_cast<std::size_t>(m + 1);
        if (rank != 3) {
          sent.emplace_back(size, element(rank, peer, m));
          sends.push_back({peer, sent.back().data(), m + 1});
        }
        if (peer != 3) {
          got.emplace_back(size);
          receives.push_back({peer, got.back().data(), m + 1});
        }
      }
    for (int round = 0; round < 3; ++round) {
      if (c.send_receive(sends, receives, Element::Double, rank) != 3) ++wrong;
      for (std::size_t i = 0; i < got.size(); ++i)
        for (double x : got[i]) wrong += x != element(receives[i].peer, rank, static_cast<int>(receives[i].count) - 1);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("Groups of all kinds on all streams are apart") {
  Parallelism p;
  p.dp = p.mp = p.ep = p.esp = 2;
  const auto transport = make_inproc_transport(p, 4, 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    for (StreamId stream = 0; stream < 2; ++stream)
      threads.emplace_back([&, rank, stream] {
        for (GroupKind kind : {GroupKind::Ep, GroupKind::Esp, GroupKind::Dp, GroupKind::Mp, GroupKind::Edp}) {
          float mine = static_cast<float>(rank + 10 * stream), sum = 0, expected = 0;
          transport->communicator(rank, stream, kind).all_reduce(exchange(&mine, &sum, 1, 0));
          for (int member : group_members(p, kind, rank)) expected += static_cast<float>(member + 10 * stream);
          wrong += sum != expected;
        }
      });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("Cancelling ends waits for members that never come") {
  Parallelism p;
  p.ep = 2;
  const auto transport = make_inproc_transport(p, 2, 1);
  std::atomic<bool> cancelled = false;
  std::thread waiting([&] {
    float x = 0, y = 0;
    try {
      transport->communicator(0, 0, GroupKind::Ep).all_reduce(exchange(&x, &y, 1, 0));
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  transport->cancel();
  waiting.join();
  CHECK(cancelled);
}

TEST_CASE("Messages wait for their receiver, not senders, and go by their tags") {
  const auto transport = make_inproc_transport({.pp = 2}, 2, 4);
  Communicator& from = transport->communicator(0, 1, GroupKind::Pp);
  Communicator& to = transport->communicator(1, 3, GroupKind::Pp);  // on another stream
  std::vector<double> sent{1, 2, 3}, got(3);
  from.post(exchange<double>(sent.data(), nullptr, 3, 5), 1, 7);
  sent = {4, 5, 6};  // the buffer is the sender's again
  from.post(exchange<double>(sent.data(), nullptr, 3, 6), 1, 8);
  CHECK(to.take(exchange<double>(nullptr, got.data(), 3, 1), 8) == 6);
  CHECK(got == std::vector<double>{4, 5, 6});
  CHECK(to.take(exchange<double>(nullptr, got.data(), 3, 9), 7) == 9);
  CHECK(got == std::vector<double>{1, 2, 3});
  bool cancelled = false;
  std::thread waiting([&] {
    try {
      to.take(exchange<double>(nullptr, got.data(), 3, 0), 7);
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  transport->cancel();
  waiting.join();
  CHECK(cancelled);
}
