// SPDX-License-Identifier: Apache-2.0
#include "models/base/files_apart.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "models/base/errors.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("A file is the same by any of its names") {
  const test::TemporaryFolder folder;
  folder.write("a", "x");
  folder.write("sub/b", "x");
  fs::create_symlink("a", "link");
  fs::create_hard_link("a", "hard");
  fs::create_symlink("sub", "other");
  for (const char* name : {"a", "./a", "sub/../a", "link", "hard"}) {
    INFO(name);
    CHECK(same_file("a", name));
    CHECK_FALSE(same_file("sub/b", name));
  }
  CHECK(same_file(fs::absolute("a"), "a"));
  CHECK(same_file("sub/new", "other/new"));  // neither is there yet
  CHECK_FALSE(same_file("sub/new", "new"));
  CHECK_FALSE(same_file("", ""));
  CHECK_FALSE(same_file("/dev/null", "/dev/null"));  // keeps nothing
}

TEST_CASE("Outputs are apart from each other and from what is read") {
  const test::TemporaryFolder folder;
  folder.write("in", "x");
  CHECK_NOTHROW(require_apart({{"-o", "a"}, {"--csv", "b"}, {"--html", ""}, {"--trace", ""}}, {"in", ""}));
  CHECK_THROWS_WITH(require_apart({{"-o", "a"}, {"--csv", "./a"}}, {}), "-o and --csv both write to ./a");
  CHECK_THROWS_WITH(require_apart({{"-o", "-"}, {"--csv", "-"}}, {}), "-o and --csv both write to -");
  CHECK_THROWS_WITH(require_apart({{"-o", "in"}}, {"in"}), Contains("-o in: this command reads that file;"));
  CHECK_THROWS_WITH(require_apart({{"-o", "./in"}}, {"in"}), Contains("-o ./in: this command reads that file as in;"));
  CHECK_NOTHROW(require_apart({{"-o", "-"}}, {"-"}));
}
