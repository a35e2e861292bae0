// SPDX-License-Identifier: Apache-2.0
#include "models/base/units.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <type_traits>

using namespace dovetail;

TEST_CASE("Sending bytes at a rate takes seconds") {
  const Seconds time = Bytes(3e9) / BytesPerSecond(1.5e9);
  CHECK(time.value() == 2.0);
  CHECK((BytesPerSecond(1.5e9) * time).value() == 3e9);
}

TEST_CASE("Equal units divide to a plain number") {
  STATIC_REQUIRE(std::is_same_v<decltype(Seconds(6) / Seconds(2)), double>);
  CHECK(Seconds(6) / Seconds(2) == 3.0);
}

TEST_CASE("Seconds and bytes do not add") {
  STATIC_REQUIRE_FALSE(std::is_invocable_v<std::plus<>, Seconds, Bytes>);
  STATIC_REQUIRE(std::is_invocable_v<std::plus<>, Seconds, Seconds>);
}
