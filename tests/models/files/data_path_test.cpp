// SPDX-License-Identifier: Apache-2.0
#include "models/files/data_path.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <string>

#include "models/base/errors.hpp"

using dovetail::data_directory;

namespace {

// Sets DOVETAIL_DATA (or takes it away) for one scope.
class DataVariable {
 public:
  explicit DataVariable(const char* value) {
    if (const char* old = std::getenv("DOVETAIL_DATA")) old_ = old;
    value != nullptr ? setenv("DOVETAIL_DATA", value, 1) : unsetenv("DOVETAIL_DATA");
  }
  ~DataVariable() { old_ ? setenv("DOVETAIL_DATA", old_->c_str(), 1) : unsetenv("DOVETAIL_DATA"); }

 private:
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("DOVETAIL_DATA decides where data lies") {
  const DataVariable variable("/usr");
  CHECK(data_directory() == "/usr");
}

TEST_CASE("A DOVETAIL_DATA that does not exist is an error, not ignored") {
  const DataVariable variable("/no/such/folder");
  CHECK_THROWS_AS(data_directory(), dovetail::InputError);
}

TEST_CASE("A built but not installed program reads the source tree's data") {
  const DataVariable variable(nullptr);
  CHECK(data_directory().filename() == "data");
  CHECK(std::filesystem::exists(data_directory() / "CMakeLists.txt"));
}
