// SPDX-License-Identifier: Apache-2.0
#include "models/base/shared.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace dovetail;

namespace {

struct Declared;  // incomplete here
struct Holder {
  Shared<Declared> value;
};

}  // namespace

TEST_CASE("copies share a value until one of them changes it") {
  Shared<std::vector<int>> first(std::vector{1, 2});
  const Shared<std::vector<int>> second = first;
  CHECK(&*first == &*second);
  first.edit().push_back(3);
  CHECK(*first == std::vector{1, 2, 3});
  CHECK(*second == std::vector{1, 2});
  const auto* const own = &*first;
  first.edit().push_back(4);  // nobody shares it any more: no copy
  CHECK(&*first == own);
}

TEST_CASE("a shared value that was not given is a default one, each its own once edited") {
  Shared<std::vector<int>> a, b;
  CHECK(a->empty());
  a.edit().push_back(1);
  CHECK(a->size() == 1);
  CHECK(b->empty());
}

TEST_CASE("a type that is only declared can be held and copied") {
  const Holder holder;
  const Holder copy = holder;  // NOLINT(performance-unnecessary-copy-initialization): that it compiles is the test
  static_cast<void>(copy);
}
