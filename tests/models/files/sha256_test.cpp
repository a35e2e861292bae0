// SPDX-License-Identifier: Apache-2.0
#include "models/files/sha256.hpp"

#include <catch2/catch.hpp>

#include "models/base/build_info.hpp"

using dovetail::sha256;

TEST_CASE("SHA-256 of FIPS 180-4's examples") {
#if DOVETAIL_HAS_OPENSSL
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
#else
  CHECK(sha256("abc").empty());
#endif
}
