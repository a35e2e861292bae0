// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/transport_checks.hpp"

#include <thread>
#include <vector>

#include "exec/run/cancellation.hpp"

namespace dovetail::test {

using namespace exec;

namespace {

double element(int from, int to, int i) {
  return 100 * from + 10 * to + i + .5;
}

}  // namespace

template <class Scalar>
int wrong_blocks(Communicator& c, int count) {
  int wrong = 0;
  const int rank = c.rank(), ranks = c.size();
  const auto n = static_cast<std::size_t>(ranks * count);
  const auto one = static_cast<std::size_t>(count);
  std::vector<Scalar> all(n), got(n), block(one), sum(one);
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
  return wrong;
}

template int wrong_blocks<float>(Communicator&, int);
template int wrong_blocks<double>(Communicator&, int);

int wrong_messages(Communicator& c) {
  int wrong = 0;
  const int rank = c.rank(), last = c.size() - 1;
  // Two messages to each other rank and one to itself; the last rank only listens. Message m has m + 1 elements.
  std::vector<std::vector<double>> sent, got;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int m = 0; m < 2; ++m)
    for (int peer = last; peer >= 0; --peer) {
      if (m == 1 && peer == rank) continue;
      const auto size = static_cast<std::size_t>(m + 1);
      if (rank != last) {
        sent.emplace_back(size, element(rank, peer, m));
        sends.push_back({peer, sent.back().data(), m + 1});
      }
      if (peer != last) {
        got.emplace_back(size);
        receives.push_back({peer, got.back().data(), m + 1});
      }
    }
  for (int round = 0; round < 3; ++round) {
    if (c.send_receive(sends, receives, Element::Double, rank) != last) ++wrong;
    for (std::size_t i = 0; i < got.size(); ++i)
      for (double x : got[i]) wrong += x != element(receives[i].peer, rank, static_cast<int>(receives[i].count) - 1);
  }
  return wrong;
}

bool cancelling_ends_waits(Transport& transport) {
  bool cancelled = false;
  std::thread waiting([&] {
    float x = 0, y = 0;
    try {
      transport.communicator(0, StreamId(0), GroupKind::Ep).all_reduce(exchange(&x, &y, 1, 0));
    } catch (const Cancelled&) {
      cancelled = true;
    }
  });
  transport.cancel();
  waiting.join();
  return cancelled;
}

}  // namespace dovetail::test
