// SPDX-License-Identifier: Apache-2.0
// Finished work is found again, whatever ended the process; what is not ours is never changed.
#include "bench/pipeline/journal.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/pipeline/differences.hpp"
#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Contains;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

const Json work{{"grid", "g"}, {"rounds", 5}};
constexpr auto path = "x.json.journal";

std::vector<std::string> keys_of(const Journal& journal) {
  std::vector<std::string> keys;
  for (const JsonLine& part : journal.finished())
    keys.push_back(part.read([](const JsonReader& json) { return json.string("key"); }));
  return keys;
}

std::string content() {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The journal of `work` with this behind its parts.
std::string begun_with(const test::TemporaryFolder& folder, const std::string& more) {
  fs::remove(path);
  { Journal(path, work).add({{"key", "a"}}); }
  folder.write(path, content() + more);
  return content();
}

}  // namespace

TEST_CASE("A journal gives back what was added, and goes away when it is removed") {
  const test::TemporaryFolder folder;
  {
    Journal journal(path, work);
    CHECK(journal.finished().empty());
    journal.add({{"key", "a"}});
    journal.add({{"key", "b"}});
  }
  Journal journal(path, work);
  CHECK(keys_of(journal) == std::vector<std::string>{"a", "b"});
  journal.add({{"key", "c"}});
  journal.remove();
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("A journal without any part is not left behind") {
  const test::TemporaryFolder folder;
  { const Journal journal(path, work); }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("A journal whose first line says the same in other bytes keeps its parts") {
  const test::TemporaryFolder folder;
  std::string text = begun_with(folder, "");
  text.insert(text.find(':') + 1, "      ");
  text.insert(text.find('\n'), "\r");
  folder.write(path, text);
  CHECK(keys_of(Journal(path, work)) == std::vector<std::string>{"a"});
  CHECK(content() == text);
}

TEST_CASE("A line that a crash cut off counts as never written") {
  const test::TemporaryFolder folder;
  begun_with(folder, R"({"key": "ha)");
  {
    Journal journal(path, work);
    CHECK(keys_of(journal) == std::vector<std::string>{"a"});
    journal.add({{"key", "b"}});
  }
  CHECK(keys_of(Journal(path, work)) == std::vector<std::string>{"a", "b"});

  const std::string first = content().substr(0, content().find('\n'));
  folder.write(path, first.substr(0, 20));  // the first line itself
  Journal(path, work).add({{"key", "c"}});
  CHECK(keys_of(Journal(path, work)) == std::vector<std::string>{"c"});
}

TEST_CASE("A file that is no journal is refused and stays as it is") {
  const test::TemporaryFolder folder;
  const std::string deep =
      "{\"kind\":\"dovetail_journal\",\"work\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}\n";
  for (const std::string text : {"important\n", "important", "{}\n", "{\"key\": 1}\n", "\n", "[[]]\n", deep.c_str()}) {
    folder.write(path, text);
    CHECK_THROWS_AS(Journal(path, work), InputError);
    CHECK(content() == text);
  }
  folder.write(path, "important\n");
  CHECK_THROWS_WITH(Journal(path, work), Contains("x.json.journal:1:1: this is not a journal of dovetail"));
}

TEST_CASE("A symbolic link is not followed") {
  const test::TemporaryFolder folder;
  folder.write("important", "x");
  fs::create_symlink("important", path);
  CHECK_THROWS_WITH(Journal(path, work), Contains("symbolic link"));
  fs::remove(path);
  fs::create_symlink("missing", path);
  CHECK_THROWS_WITH(Journal(path, work), Contains("symbolic link"));
  CHECK_FALSE(fs::exists("missing"));
}

TEST_CASE("A journal of other work or another version is refused with what differs, and kept") {
  const test::TemporaryFolder folder;
  const std::string before = begun_with(folder, "");
  CHECK_THROWS_WITH(Journal(path, Json{{"grid", "g"}, {"rounds", 1}}),
                    Contains("other work (work/rounds is 5 there and 1 here)"));
  CHECK(content() == before);
  std::string older = before;
  older.replace(older.find("\"1.0\""), 5, "\"0.9\"");
  folder.write(path, older);
  CHECK_THROWS_WITH(Journal(path, work), Contains("schema_version is \"0.9\" there and \"1.0\" here"));
  CHECK(content() == older);
}

TEST_CASE("A damaged line is refused with its place, and nothing is lost") {
  const test::TemporaryFolder folder;
  for (const std::string line : {"{\"key\": \n", "GARBAGE\n", "\n"}) {
    const std::string before = begun_with(folder, line + "{\"key\":\"b\"}\n");
    CHECK_THROWS_WITH(Journal(path, work), Contains("x.json.journal:3:"));
    CHECK(content() == before);
  }
  begun_with(folder, "{\"kex\":\"b\"}\n");
  CHECK_THROWS_WITH(keys_of(Journal(path, work)), Contains("x.json.journal:3:1: missing key \"key\""));
}

TEST_CASE("Differences are named by their path, the first three of them") {
  const Json there{{"a", 1}, {"b", {{"c", "x"}, {"d", 2}}}, {"e", std::string(100, 'x')}, {"f", 1}};
  const Json here{{"a", 2}, {"b", {{"c", "x"}}}, {"e", "y"}, {"g", 1}};
  CHECK(differences(there, there).empty());
  CHECK(differences(there, here) == "a is 1 there and 2 here, b/d is only there, e is not the same, 2 more");
}
