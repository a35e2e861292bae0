// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/json_reader.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

using namespace dovetail;

namespace {

enum class Link { Pcie, NvLink };
constexpr std::array<std::pair<std::string_view, Link>, 2> link_names{{{"pcie", Link::Pcie}, {"nvlink", Link::NvLink}}};

const std::string cluster = R"({
  // six nodes
  "nodes": 6, "layers": 4.0, "big": 5000000000, "half": 0.5, "negative": -1,
  "device": {"memory": "40 GiB", "bandwidth": "-1 GB/s", "free": "0 B", "speed": 200},
  "link": "nvlink", "wrong_link": "nvlinc", "fast": true,
  "sizes": [1, 2, "x"]
})";

std::string refusal(const std::function<void(const JsonReader&)>& read) {
  const JsonFile file = JsonFile::parse(cluster, "c.json");
  try {
    read(JsonReader(file));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("Values are read by type") {
  const JsonFile file = JsonFile::parse(cluster, "c.json");
  const JsonReader reader(file);
  CHECK(reader.integer("nodes", 1, 64) == 6);
  CHECK(reader.integer("layers") == 4);
  CHECK(reader.long_integer("big") == 5'000'000'000);
  CHECK(reader.number("half") == 0.5);
  CHECK(reader.number("nodes") == 6);
  CHECK(reader.boolean("fast"));
  CHECK(reader.string("link") == "nvlink");
  CHECK(reader.enumeration("link", link_names) == Link::NvLink);
  CHECK(reader.at("device").quantity<Bytes>("memory") == Bytes(40 * 0x1p30));
  CHECK(reader.at("device").quantity<BytesPerSecond>("bandwidth", Sign::Any) == BytesPerSecond(-1e9));
  CHECK(reader.at("sizes").elements()[1].integer() == 2);
  CHECK(reader.at("sizes").elements()[2].pointer() == "/sizes/2");
  CHECK(reader.at("device").members().size() == 4);
  CHECK(reader.at("device").members()[0].first == "bandwidth");
}

TEST_CASE("Missing keys take the fallback, wrong values do not") {
  const JsonFile file = JsonFile::parse(cluster, "c.json");
  const JsonReader reader(file);
  CHECK(reader.integer_or("absent", 3) == 3);
  CHECK(reader.integer_or("nodes", 3) == 6);
  CHECK(reader.number_or("absent", 1.5) == 1.5);
  CHECK(reader.string_or("absent", "s") == "s");
  CHECK(reader.boolean_or("absent", true));
  CHECK(reader.quantity_or("absent", Seconds(1)) == Seconds(1));
  CHECK(reader.enumeration_or("absent", link_names, Link::Pcie) == Link::Pcie);
  CHECK_FALSE(reader.find("absent"));
  CHECK(reader.find("device")->has("memory"));
  CHECK_THROWS_AS(reader.integer_or("half", 3), InputError);
}

TEST_CASE("Every wrong value is located and explained") {
  struct Case {
    std::function<void(const JsonReader&)> read;
    std::string message;
  };
  const std::vector<Case> cases{
      {[](auto& r) { r.integer("nodes", 8, 64); },
       "c.json:3:12: /nodes: expected a whole number from 8 to 64, got the number 6"},
      {[](auto& r) { r.integer("half"); },
       "c.json:3:57: /half: expected a whole number of at least 0, got the number 0.5"},
      {[](auto& r) { r.integer("negative"); },
       "c.json:3:74: /negative: expected a whole number of at least 0, got the number -1"},
      {[](auto& r) { r.integer("big"); },
       "c.json:3:37: /big: expected a whole number from 0 to 2147483647, got the number 5000000000"},
      {[](auto& r) { r.number("link"); }, "c.json:5:11: /link: expected a number, got the string \"nvlink\""},
      {[](auto& r) { r.number("half", 0.75, 1); },
       "c.json:3:57: /half: expected a number from 0.75 to 1, got the number 0.5"},
      {[](auto& r) { r.string("device"); }, "c.json:4:13: /device: expected a string, got an object"},
      {[](auto& r) { r.boolean("nodes"); }, "c.json:3:12: /nodes: expected true or false, got the number 6"},
      {[](auto& r) { r.integer("node"); }, "c.json:1:1: missing key \"node\", did you mean \"nodes\"?"},
      {[](auto& r) { r.at("device").at("memory").at("x"); },
       "c.json:4:24: /device/memory: expected an object, got the string \"40 GiB\""},
      {[](auto& r) { r.at("device").template quantity<BytesPerSecond>("bandwidth"); },
       "c.json:4:47: /device/bandwidth: expected no less than zero, got \"-1 GB/s\""},
      {[](auto& r) { r.at("device").template quantity<Bytes>("free", Sign::Positive); },
       "c.json:4:66: /device/free: expected more than zero, got \"0 B\""},
      {[](auto& r) { r.at("device").template quantity<BytesPerSecond>("speed"); },
       "c.json:4:82: /device/speed: expected a bandwidth with unit, such as \"200 Gb/s\", got the number 200"},
      {[](auto& r) { r.at("device").template quantity<Seconds>("memory"); },
       "c.json:4:24: /device/memory: expected a time with unit, such as \"12.5 us\", got \"40 GiB\", which is an "
       "amount of data"},
      {[](auto& r) { r.enumeration("wrong_link", link_names); },
       "c.json:5:35: /wrong_link: expected \"pcie\" or \"nvlink\", got \"nvlinc\", did you mean \"nvlink\"?"},
      {[](auto& r) { r.enumeration("nodes", link_names); },
       "c.json:3:12: /nodes: expected \"pcie\" or \"nvlink\", got the number 6"},
      {[](auto& r) { r.at("sizes").elements()[2].integer(); },
       "c.json:6:19: /sizes/2: expected a whole number of at least 0, got the string \"x\""},
      {[](auto& r) { r.at("nodes").elements(); }, "c.json:3:12: /nodes: expected an array, got the number 6"},
      {[](auto& r) { r.at("nodes").members(); }, "c.json:3:12: /nodes: expected an object, got the number 6"},
      {[](auto& r) { r.fail("nodes", "too many"); }, "c.json:3:12: /nodes: too many"},
  };
  for (const auto& [read, message] : cases) CHECK(refusal(read) == message);
}

TEST_CASE("Generated values are located by name and pointer") {
  const JsonFile file =
      JsonFile::wrap({{"x", std::numeric_limits<double>::quiet_NaN()}, {"y", 1ull << 63}}, "defaults");
  const JsonReader reader(file);
  CHECK_THROWS_WITH(reader.number("x"), "defaults: /x: expected a number, got a number that is not finite");
  CHECK_THROWS_WITH(reader.long_integer("y"),
                    "defaults: /y: expected a whole number of at least 0, got the number 9223372036854775808");
}

TEST_CASE("Values set from outside are blamed on their origin") {
  JsonFile file = JsonFile::parse(R"({"plan": {"chunks": 2}, "list": [1, 2]})", "e.json");
  file.set("/plan/forward_degree", "four", "--set plan.forward_degree");
  file.set("/workload/batch", -1, "--set workload.batch");
  file.set("/list/1", {{"a", 1}}, "--set list.1");
  const JsonReader reader(file);
  CHECK(reader.at("plan").integer("chunks") == 2);
  CHECK_THROWS_WITH(reader.at("plan").integer("forward_degree"),
                    "--set plan.forward_degree: expected a whole number of at least 0, got the string \"four\"");
  CHECK_THROWS_WITH(reader.at("list").elements()[1].string("a"),
                    "--set list.1: /a: expected a string, got the number 1");
  CHECK(file.locate_key("/workload").file == "--set workload.batch");
  CHECK(file.locate("/plan/chunks").file == "e.json");
  CHECK_THROWS_WITH(file.set("/plan/chunks/x", 1, "--set plan.chunks.x"),
                    "--set plan.chunks.x: no \"x\" inside the number 2");
  CHECK_THROWS_WITH(file.set("/list/2", 1, "--set list.2"),
                    "--set list.2: no element \"2\", expected an index below 2");
}
