// SPDX-License-Identifier: Apache-2.0
#include "exec/transport/echo_transport.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

using Blocks = std::array<float, 4>;  // one element for each of four members

// Rank 2 of four.
struct Echo {
  Parallelism groups = [] {
    Parallelism p;
    p.ep = 4;
    return p;
  }();
  std::unique_ptr<Transport> transport = make_echo_transport(groups, 2, 1);
  Communicator& communicator = transport->communicator(2, StreamId(0), GroupKind::Ep);
  Blocks sent{1, 2, 3, 4}, received{9, 9, 9, 9};

  Exchange of(std::int64_t count) { return exchange<float>(sent.data(), received.data(), count, 5); }
};

}  // namespace

TEST_CASE("One rank that stands for all gets back what it sends, in the place of each member's") {
  Echo echo;
  CHECK(echo.transport->local_ranks() == std::vector{2});
  CHECK(echo.transport->machine_ranks() == 1);
  CHECK(echo.communicator.rank() == 2);
  CHECK(echo.communicator.size() == 4);
  CHECK(echo.communicator.all_to_all(echo.of(1)) == 5);  // nobody is later
  CHECK(echo.received == echo.sent);
  echo.communicator.all_gather(echo.of(1));
  CHECK(echo.received == Blocks{1, 1, 1, 1});
  echo.communicator.reduce_scatter(echo.of(1));
  CHECK(echo.received[0] == 3);  // its own block, the third
  echo.communicator.all_reduce(echo.of(4));
  CHECK(echo.received == echo.sent);
}

TEST_CASE("One rank that stands for all gets zeros where another is the root") {
  Echo echo;
  echo.communicator.broadcast(echo.of(2), 2);
  CHECK(echo.received == Blocks{1, 2, 9, 9});
  echo.communicator.broadcast(echo.of(2), 0);
  CHECK(echo.received == Blocks{0, 0, 9, 9});
  echo.received.fill(9);
  echo.communicator.reduce(echo.of(2), 0);
  CHECK(echo.received == Blocks{9, 9, 9, 9});
  echo.communicator.reduce(echo.of(2), 2);
  CHECK(echo.received == Blocks{1, 2, 9, 9});
}

TEST_CASE("The n-th message to a peer comes back as the n-th from it, and what is missing is zero") {
  Echo echo;
  const std::array sends{Send{1, echo.sent.data(), 1}, Send{0, &echo.sent[1], 1}, Send{1, &echo.sent[2], 1}};
  std::array<float, 2> first{9, 9};
  float second = 9, third = 9;
  const std::array receives{Receive{1, first.data(), 2}, Receive{1, &second, 1}, Receive{1, &third, 1}};
  echo.communicator.send_receive(sends, receives, Element::Float, 0);
  CHECK(first == std::array<float, 2>{1, 0});  // two elements are awaited, one was sent
  CHECK(second == 3);
  CHECK(third == 0);
}

TEST_CASE("One rank that stands for all has no other pipeline stage") {
  Echo echo;
  CHECK_THROWS_AS(echo.communicator.post(echo.of(1), 0, 0), InternalError);
  CHECK_THROWS_AS(echo.communicator.take(echo.of(1), 0), InternalError);
}
