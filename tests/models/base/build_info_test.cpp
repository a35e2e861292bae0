// SPDX-License-Identifier: Apache-2.0
#include "models/base/build_info.hpp"

#include <catch2/catch.hpp>

TEST_CASE("The build names its version, compiler and type") {
  const dovetail::BuildInfo info = dovetail::build_info();
  CHECK_THAT(info.version, Catch::Matches(R"(\d+\.\d+\.\d+)"));
  CHECK_THAT(info.git_revision, Catch::Matches("[0-9a-f]{12}|unknown"));
  CHECK_FALSE(info.compiler.empty());
  CHECK_FALSE(info.build_type.empty());
}
