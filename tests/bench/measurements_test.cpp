// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/measurements.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Json = nlohmann::ordered_json;

namespace {

const Json grid{{"grid", "g"}};
constexpr auto journal = "x.journal";

// Makes the measurement `key` and returns its value; -1: it was too late. `calls` counts what was really measured.
int value_of(Measurements& measurements, const std::string& key, int value, int& calls) {
  int seen = -1;
  measurements.make(
      key,
      [&] {
        ++calls;
        return Json{{"value", value}};
      },
      [&](const JsonReader& json) { seen = json.integer("value"); });
  return seen;
}

}  // namespace

TEST_CASE("measurements: what an earlier run has measured is not measured again") {
  const test::TemporaryFolder folder;
  int calls = 0;
  {
    Measurements first;
    first.keep_in(journal, grid);
    CHECK(value_of(first, "a", 1, calls) == 1);
  }
  Measurements second;
  second.keep_in(journal, grid);
  CHECK(value_of(second, "a", 2, calls) == 1);
  CHECK(value_of(second, "b", 3, calls) == 3);
  CHECK(calls == 2);
  CHECK_FALSE(second.progression().partial());
  second.remove_journal();
  CHECK_FALSE(std::filesystem::exists(journal));
}

TEST_CASE("measurements: none begins when it is too late, but finished ones count") {
  const test::TemporaryFolder folder;
  int calls = 0;
  {
    Measurements first;
    first.keep_in(journal, grid);
    value_of(first, "a", 1, calls);
  }
  Measurements late(Seconds(1e-9));
  late.keep_in(journal, grid);
  CHECK(value_of(late, "a", 2, calls) == 1);
  CHECK(value_of(late, "b", 3, calls) == -1);
  CHECK(calls == 1);
  CHECK(late.progression().made == 1);
  CHECK(late.progression().all == 2);
  CHECK(late.progression().partial());
}

TEST_CASE("measurements: a journal with a key twice is refused") {
  const test::TemporaryFolder folder;
  {
    Journal twice(journal, grid);
    twice.add({{"key", "a"}, {"value", 1}});
    twice.add({{"key", "a"}, {"value", 2}});
  }
  Measurements measurements;
  CHECK_THROWS_WITH(measurements.keep_in(journal, grid), Catch::Contains("given twice, expected once"));
}
