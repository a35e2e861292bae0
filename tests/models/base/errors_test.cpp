// SPDX-License-Identifier: Apache-2.0
#include "models/base/errors.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

TEST_CASE("An input error names file, line, column and pointer in one line") {
  const InputError error({"a.json", 3, 7, "/model/experts"}, "must be an integer, is \"8\"");
  CHECK(std::string(error.what()) == "a.json:3:7: /model/experts: must be an integer, is \"8\"");
  CHECK(error.where().line == 3);
  CHECK(error.message() == "must be an integer, is \"8\"");
}

TEST_CASE("An unknown column is left out") {
  CHECK(std::string(InputError({"a.xml", 3, 0, ""}, "no link").what()) == "a.xml:3: no link");
}

TEST_CASE("An input error without a place is its message") {
  CHECK(std::string(InputError("no such system").what()) == "no such system");
}

TEST_CASE("A device error names call, reason, code and rank where they are known") {
  CHECK(std::string(DeviceError("MPI_Init", "aborted", 5, 2).what()) == "MPI_Init: aborted (5), rank 2");
  CHECK(std::string(DeviceError("dlopen", "no such file").what()) == "dlopen: no such file");
}

TEST_CASE("A failed check throws and says where") {
  CHECK_NOTHROW(check(true));
  CHECK_THROWS_AS(check(false, "two is three"), InternalError);
  CHECK_THROWS_WITH(check(false, "two is three"),
                    Catch::Contains("errors_test.cpp:") && Catch::EndsWith("two is three"));
}

TEST_CASE("An input error never commands a terminal, and is never longer than a screen") {
  CHECK(std::string(InputError("a\nb\x1b[31mc\xC2\x9B"
                               "2Jd")
                        .what()) == "a b [31mc  2Jd");
  const std::string what = InputError(std::string(1999, 'x') + "\u00fc" + std::string(5000, 'x')).what();
  CHECK(what == std::string(1999, 'x') + "...");  // no half of a character
}
