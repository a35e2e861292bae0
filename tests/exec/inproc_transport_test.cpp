// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/inproc_transport.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "exec/run/cancellation.hpp"
#include "tests/exec/transport_checks.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// One group of `ranks`: each rank's thread gets its communicator.
void on_each_rank(int ranks, const std::function<void(Communicator&, int)>& body) {
  Parallelism p;
  p.ep = ranks;
  const auto transport = make_inproc_transport(p, ranks, 1);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(transport->communicator(rank, StreamId(0), GroupKind::Ep), rank); });
  for (std::thread& t : threads) t.join();
}

// Catch's assertions are not for several threads: each counts its differences instead.
int wrong_on(int ranks, const std::function<int(Communicator&)>& check) {
  std::atomic<int> wrong = 0;
  on_each_rank(ranks, [&](Communicator& c, int rank) {
    if (c.rank() != rank || c.size() != ranks) ++wrong;
    wrong += check(c);
  });
  return wrong;
}

}  // namespace

TEST_CASE("Every block of every collective arrives, in groups of 1 to 8") {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CHECK(wrong_on(ranks, [](Communicator& c) { return wrong_blocks<float>(c, 3); }) == 0);
    CHECK(wrong_on(ranks, [](Communicator& c) { return wrong_blocks<double>(c, 3); }) == 0);
  }
}

TEST_CASE("Messages of a group arrive in the order of their pair, whatever their sizes") {
  CHECK(wrong_on(4, wrong_messages) == 0);
}

TEST_CASE("Groups of all kinds on all streams are apart") {
  Parallelism p;
  p.dp = p.mp = p.ep = p.esp = 2;
  const auto transport = make_inproc_transport(p, 4, 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    for (StreamId stream{0}; stream < 2; ++stream)
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
  CHECK(cancelling_ends_waits(*make_inproc_transport(p, 2, 1)));
}

TEST_CASE("Messages wait for their receiver, not senders, and go by their tags") {
  const auto transport = make_inproc_transport({.pp = 2}, 2, 4);
  Communicator& from = transport->communicator(0, StreamId(1), GroupKind::Pp);
  Communicator& to = transport->communicator(1, StreamId(3), GroupKind::Pp);  // on another stream
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
