// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/nearest.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

TEST_CASE("A mistyped word finds the one meant") {
  const std::vector<std::string> keys{"nodes", "gpus_per_node",  "device",  "name", "forward_degree", "compare", "dp",
                                      "mp",    "dgx-h100-rails", "dgx-h100"};
  struct Case {
    std::string word, meant;
  };
  for (const auto& [word, meant] : std::vector<Case>{{"nodez", "nodes"},
                                                     {"Nodes", "nodes"},
                                                     {"noeds", "nodes"},
                                                     {"nods", "nodes"},
                                                     {"gpu-per-node", "gpus_per_node"},
                                                     {"forward", "forward_degree"},
                                                     {"comapre", "compare"},
                                                     {"db", "dp"},
                                                     {"h100", "dgx-h100"},
                                                     {"nodes", "nodes"}}) {
    INFO(word);
    CHECK(nearest(word, keys) == meant);
  }
}

TEST_CASE("A word far from all has no neighbour") {
  const std::vector<std::string> keys{"nodes", "device"};
  for (const char* word : {"", "x", "bandwidth", "no", "noodles_and_soup"}) {
    INFO(word);
    CHECK(nearest(word, keys) == std::nullopt);
  }
  CHECK(nearest("nodes", {}) == std::nullopt);
  CHECK(nearest("a", {"b"}) == std::nullopt);
  CHECK(nearest(std::string(1'000'000, 'a'), {std::string(1'000'001, 'a')}) == std::nullopt);
}

TEST_CASE("The suggestion is ready to append") {
  CHECK(did_you_mean("nodez", {"nodes"}) == ", did you mean \"nodes\"?");
  CHECK(did_you_mean("bandwidth", {"nodes"}).empty());
}
