// SPDX-License-Identifier: Apache-2.0
#include "models/base/id.hpp"

#include <catch2/catch.hpp>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>

using namespace dovetail;

namespace {

using Cow = Id<struct CowKey>;
using Horse = Id<struct HorseKey>;

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <class A, class B>
concept Ordered = requires(A a, B b) {
  a < b;
};
template <class Vector, class Key>
concept Indexed = requires(Vector vector, Key key) {
  vector[key];
};

// Mistakes that ids are there for do not compile.
static_assert(!std::convertible_to<Cow, Horse> && !std::constructible_from<Horse, Cow>);
static_assert(!Comparable<Cow, Horse> && !Ordered<Cow, Horse>);
static_assert(Comparable<Cow, Cow> && Ordered<Cow, Cow> && Comparable<Cow, std::size_t>);
static_assert(Indexed<IdVector<Cow, int>, Cow> && !Indexed<IdVector<Cow, int>, Horse>);
static_assert(!std::assignable_from<Cow&, Horse>);
static_assert(sizeof(Cow) == sizeof(std::int32_t));

}  // namespace

TEST_CASE("An id names nothing by default, and reads as its number") {
  CHECK_FALSE(Cow().exists());
  const Cow berta = 3;
  CHECK(berta.exists());
  CHECK(berta == 3U);
  CHECK(berta > Cow(2));
  CHECK(Cow() < 0U);  // not the largest unsigned number
  CHECK(berta + 1 == 4);
  CHECK(nlohmann::json(berta).dump() == "3");
}

TEST_CASE("A vector by ids gives each new element its id, and lists them in order") {
  IdVector<Cow, double> milk;
  const Cow first = milk.add(7.5), second = milk.add(8);
  CHECK(milk[second] == 8);
  std::vector<Cow> all;
  for (const Cow cow : milk.ids()) all.push_back(cow);
  CHECK(all == std::vector<Cow>{first, second});
  CHECK(IdVector<Cow, double>(2, 1.0) == IdVector<Cow, double>{1.0, 1.0});
}
