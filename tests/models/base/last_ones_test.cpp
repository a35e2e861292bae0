// SPDX-License-Identifier: Apache-2.0
#include "models/base/last_ones.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace dovetail;

TEST_CASE("The values of the last keys are kept, and the one asked for longest ago goes first") {
  LastOnes<int, std::string, 2> squares;
  int made = 0;
  const auto square = [&](int key) {
    ++made;
    return std::to_string(key * key);
  };
  CHECK(squares.find_or(3, square) == "9");
  CHECK(squares.find_or(4, square) == "16");
  CHECK(squares.find_or(3, square) == "9");  // kept, and now the last one
  CHECK(made == 2);
  CHECK(squares.find_or(5, square) == "25");  // in place of 4
  CHECK(squares.find_or(3, square) == "9");
  CHECK(made == 3);
  CHECK(squares.find_or(4, square) == "16");
  CHECK(made == 4);
}
