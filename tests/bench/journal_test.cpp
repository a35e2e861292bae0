// Finished work is found again, whatever ended the process.
#include "bench/pipeline/journal.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

const Json work{{"grid", "g"}};

std::string new_path() {
  const fs::path path = fs::temp_directory_path() / ("dovetail_journal_test." + std::to_string(getpid()));
  fs::remove(path);
  return path.string();
}

}  // namespace

TEST_CASE("A journal gives back what was added, and goes away when it is removed") {
  const std::string path = new_path();
  {
    Journal journal(path, work);
    CHECK(journal.finished().empty());
    journal.add({{"key", "a"}});
    journal.add({{"key", "b"}});
  }
  Journal journal(path, work);
  CHECK(journal.finished() == std::vector<Json>{{{"key", "a"}}, {{"key", "b"}}});
  journal.add({{"key", "c"}});
  journal.remove();
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("A line that a crash cut off counts as never written") {
  const std::string path = new_path();
  { Journal(path, work).add({{"key", "a"}}); }
  std::ofstream(path, std::ios::app) << R"({"key": "ha)";
  {
    Journal journal(path, work);
    CHECK(journal.finished().size() == 1);
    journal.add({{"key", "b"}});
  }
  CHECK(Journal(path, work).finished().size() == 2);
  fs::remove(path);
}

TEST_CASE("A journal of other work is refused and kept") {
  const std::string path = new_path();
  { Journal(path, work).add({{"key", "a"}}); }
  CHECK_THROWS_AS(Journal(path, Json{{"grid", "other"}}), InputError);
  CHECK(Journal(path, work).finished().size() == 1);
  fs::remove(path);
}
