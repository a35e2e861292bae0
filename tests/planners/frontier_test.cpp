// SPDX-License-Identifier: Apache-2.0
#include "planners/search/frontier.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;
using namespace dovetail::planners;

namespace {

Candidate candidate(double rank, double bound, std::size_t at) {
  return {Seconds(rank), Seconds(bound), Level::Structure, at};
}

}  // namespace

TEST_CASE("frontier: the lowest rank comes first, of equal ones that which was pushed first") {
  Frontier frontier;
  frontier.push(candidate(3, 1, 0));
  frontier.push(candidate(2, 2, 1));
  frontier.push(candidate(2, 1, 2));
  frontier.push(candidate(1, 1, 3));
  for (std::size_t expected : {3, 1, 2, 0}) CHECK(frontier.pop().at == expected);
  CHECK(frontier.empty());
}

TEST_CASE("frontier: what is left out bounds what the search has missed") {
  Frontier frontier;
  CHECK(frontier.unexplored() == never);
  frontier.leave_out(candidate(9, 5, 0));
  CHECK(frontier.unexplored() == Seconds(5));
  frontier.push(candidate(6, 6, 1));
  frontier.push(candidate(7, 4, 2));
  frontier.leave_out_rest();
  CHECK(frontier.empty());
  CHECK(frontier.unexplored() == Seconds(4));
}
