// SPDX-License-Identifier: Apache-2.0
#include "models/time/merged_lists.hpp"

#include <catch2/catch.hpp>
#include <random>

using namespace dovetail;

TEST_CASE("Lists that are in order are gone through as one list that is") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<int>> lists(random() % 6);
    std::vector<int> all;
    for (std::vector<int>& list : lists) {
      for (auto left = random() % 12; left > 0; --left) list.push_back(static_cast<int>(random() % 20));
      std::ranges::sort(list);
      all.insert(all.end(), list.begin(), list.end());
    }
    std::ranges::sort(all);
    std::vector<int> visited;
    visit_in_order(std::vector<std::span<const int>>(lists.begin(), lists.end()),
                   [&](int item) { visited.push_back(item); });
    CHECK(visited == all);
  }
}
