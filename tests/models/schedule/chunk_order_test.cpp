// SPDX-License-Identifier: Apache-2.0
#include "models/schedule/builder/chunk_order.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace dovetail;
using namespace dovetail::builder;

namespace {

std::string text(Order order, int degree, int depth = 0) {
  std::string result;
  for (const auto [turn, chunk] : chunk_order(order, degree, depth))
    result += std::string(turn == Turn::Send ? "S" : turn == Turn::Work ? "W" : "B") + std::to_string(chunk) + " ";
  return result;
}

}  // namespace

TEST_CASE("the order in which chunks are enqueued") {
  CHECK(text(Order::DispatchFirst, 3) == "S0 S1 S2 W0 W1 W2 B0 B1 B2 ");
  CHECK(text(Order::Alternate, 3) == "S0 S1 W0 B0 S2 W1 B1 W2 B2 ");
  CHECK(text(Order::Alternate, 1) == "S0 W0 B0 ");
  CHECK(text(Order::ReadyFirst, 3) == text(Order::Alternate, 3));
}

TEST_CASE("rings: chunk i is sent after chunk i - depth was worked on, which is brought back before i is worked on") {
  CHECK(text(Order::Alternate, 3, 1) == "S0 W0 B0 S1 W1 B1 S2 W2 B2 ");
  CHECK(text(Order::Alternate, 3, 2) == text(Order::Alternate, 3));  // sends one ahead as it is
  CHECK(text(Order::DispatchFirst, 2, 2) == "S0 S1 W0 W1 B0 B1 ");
}
