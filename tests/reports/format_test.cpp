// SPDX-License-Identifier: Apache-2.0
#include "reports/text/format.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "bench/examples/custom_moe/hash_gate.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::reports;

TEST_CASE("the lines of an experiment say what is of a program's own, and that it is believed") {
  Experiment e = test::testbed_b();
  const std::size_t lines = experiment_lines(e).size();
  e.extensions.gate = std::make_shared<HashGate>();
  REQUIRE(experiment_lines(e).size() == lines + 1);
  CHECK(experiment_lines(e).back() == "gate hash: of this program's own; predictions take the work that they state");
}

TEST_CASE("durations and sizes have three digits and a fitting unit") {
  CHECK(duration(Seconds(0)) == "0.00 us");
  CHECK(duration(Seconds(12.34e-6)) == "12.3 us");
  CHECK(duration(Seconds(0.9995)) == "1000 ms");
  CHECK(duration(Seconds(123.4)) == "123 s");
  CHECK(bytes(Bytes(512)) == "512 B");
  CHECK(bytes(Bytes(1536)) == "1.50 KiB");
  CHECK(bytes(Bytes(48 * gib)) == "48.0 GiB");
  CHECK(bytes(Bytes(std::numeric_limits<double>::infinity())) == "-");
}

TEST_CASE("missing and infinite numbers are dashes") {
  CHECK(fixed(std::nullopt, 2) == "-");
  CHECK(fixed(std::numeric_limits<double>::quiet_NaN(), 2) == "-");
  CHECK(fixed(1.005, 1) == "1.0");
}

TEST_CASE("decimals give the largest value about four digits") {
  CHECK(decimals_for({3, 1200}) == 1);
  CHECK(decimals_for({99.5}) == 2);
  CHECK(decimals_for({1.5}) == 3);
  CHECK(decimals_for({}) == 4);
}

TEST_CASE("names are safe on a terminal and shortened by characters, not bytes") {
  CHECK(printable("a\x1b[31mb\n") == "a?[31mb?");
  CHECK(printable("0123456789", 10) == "0123456789");
  CHECK(printable("01234567890", 10) == "01234567..");
  CHECK(printable("\u00fc\u00fc\u00fc\u00fc\u00fc", 4) == "\u00fc\u00fc..");
}

TEST_CASE("text wraps at spaces, keeps its margin and indents what follows") {
  CHECK(wrapped("  - one two three", 11, 4) == "  - one two\n    three");
  CHECK(wrapped("unbreakably-long word", 5, 2) == "unbreakably-long\n  word");
  CHECK(wrapped("", 5, 2) == "");
}
