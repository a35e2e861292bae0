// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/quantity.hpp"

#include <catch2/catch.hpp>
#include <clocale>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models/base/errors.hpp"

using namespace dovetail;

namespace {

template <class Q>
std::string refusal_of_quantity(const std::string& text) {
  try {
    parse_quantity<Q>(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

template <class Q>
struct Accepted {
  std::string text;
  double value;
};

template <class Q>
void check_all(const std::vector<Accepted<Q>>& table) {
  for (const auto& [text, value] : table) {
    INFO(text);
    CHECK(parse_quantity<Q>(text).value() == Approx(value).epsilon(4e-16).margin(0));
  }
}

}  // namespace

TEST_CASE("Quantities with units are read, none worse than the last bit") {
  check_all<Seconds>({{"12.5 us", 12.5e-6},
                      {"2.4e-6 ms", 2.4e-9},
                      {"3ns", 3e-9},
                      {"  7   s ", 7},
                      {"1 fs", 1e-15},
                      {"5 \u00b5s", 5e-6},
                      {"5 \u03bcs", 5e-6},
                      {"-1.5 ms", -1.5e-3},
                      {"0 s", 0}});
  check_all<Bytes>(
      {{"11 GB", 11e9}, {"40 GiB", 40 * 0x1p30}, {"8 b", 1}, {"1 kB", 1000}, {"1 KiB", 1024}, {"2 Mib", 0x1p18}});
  check_all<Flops>({{"2 TFLOP", 2e12}, {"3 Gflop", 3e9}, {"1 flop", 1}});
  check_all<BytesPerSecond>({{"200 Gb/s", 25e9}, {"15.75 GB/s", 15.75e9}, {"1 GiB/s", 0x1p30}, {"3 kB/ms", 3e6}});
  check_all<FlopsPerSecond>({{"312 TFLOP/s", 312e12}, {"989 Tflop/s", 989e12}});
  check_all<SecondsPerByte>({{"0.23 ps/B", 0.23e-12}, {"8 ns/b", 64e-9}, {"1 us/MB", 1e-12}});
  check_all<SecondsPerFlop>({{"176.8 fs/flop", 176.8e-15}});
}

TEST_CASE("A wrong quantity says what was expected, with an example") {
  const std::string time = "expected a time with unit, such as \"12.5 us\", got ";
  CHECK(refusal_of_quantity<Seconds>("12.5") == time + "\"12.5\", which has no unit");
  CHECK(refusal_of_quantity<Seconds>("12.5 parsec") == time + "\"12.5 parsec\", whose unit \"parsec\" is unknown");
  CHECK(refusal_of_quantity<Seconds>("3 GB") == time + "\"3 GB\", which is an amount of data");
  CHECK(refusal_of_quantity<Seconds>("fast") == time + "\"fast\"");
  CHECK(refusal_of_quantity<Seconds>("") == time + "\"\"");
  CHECK(refusal_of_quantity<Seconds>("nan s") == time + "\"nan s\", which is not a finite number");
  CHECK(refusal_of_quantity<Seconds>("-inf s") == time + "\"-inf s\", which is not a finite number");
  CHECK(refusal_of_quantity<Seconds>("1e999 s") == time + "\"1e999 s\", whose number is too large or too small");
  CHECK(refusal_of_quantity<Seconds>("1e-320 fs") == time + "\"1e-320 fs\", which is too small");
  CHECK(refusal_of_quantity<Seconds>("3 s/s") == time + "\"3 s/s\", whose unit measures something else");
  CHECK(refusal_of_quantity<Bytes>("1e308 TB") ==
        "expected an amount of data with unit, such as \"40 GiB\", got \"1e308 TB\", which is too large");
  CHECK(refusal_of_quantity<BytesPerSecond>("200 GB") ==
        "expected a bandwidth with unit, such as \"200 Gb/s\", got \"200 GB\", which is an amount of data");
  CHECK(
      refusal_of_quantity<BytesPerSecond>("400Gbps") ==
      "expected a bandwidth with unit, such as \"200 Gb/s\", got \"400Gbps\", whose unit \"Gbps\" is unknown, did you "
      "mean \"Gb/s\"?");
  CHECK(
      refusal_of_quantity<FlopsPerSecond>("312 TFLOP") ==
      "expected a compute rate with unit, such as \"312 TFLOP/s\", got \"312 TFLOP\", which is a number of operations");
  CHECK(refusal_of_quantity<SecondsPerByte>("1 GB/s") ==
        "expected a time per byte with unit, such as \"0.23 ps/B\", got \"1 GB/s\", which is a bandwidth");
}

TEST_CASE("Units that are nearly right are still refused") {
  for (const char* text :
       {"12 Us", "12 Ms", "12 us us", "12 us,", "1,5 us", "1 2 us", "+1 us", "0x1 us", "12 us/", "1e s"}) {
    INFO(text);
    CHECK(refusal_of_quantity<Seconds>(text) != "accepted");
  }
  for (const char* text : {"1 KB", "1 mB", "1 GBit", "1 gib", "1 ps/B/B"}) {
    INFO(text);
    CHECK(refusal_of_quantity<Bytes>(text) != "accepted");
  }
}

TEST_CASE("A quantity that would break the line is shown escaped and shortened") {
  const std::string message = refusal_of_quantity<Seconds>("1 s\n" + std::string(1000, 'x'));
  CHECK(message.size() < 250);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("Quantities are printed with four digits and a readable prefix") {
  CHECK(format_quantity(Seconds(12.5e-6)) == "12.5 us");
  CHECK(format_quantity(Seconds(0.0123456)) == "12.35 ms");
  CHECK(format_quantity(Seconds(999.96e-6)) == "1 ms");
  CHECK(format_quantity(Seconds(999.94e-6)) == "999.9 us");
  CHECK(format_quantity(Seconds(0)) == "0 s");
  CHECK(format_quantity(Seconds(-2e-3)) == "-2 ms");
  CHECK(format_quantity(Seconds(123456)) == "123500 s");
  CHECK(format_quantity(Bytes(512)) == "512 B");
  CHECK(format_quantity(Bytes(40 * 0x1p30)) == "40 GiB");
  CHECK(format_quantity(Bytes(11e9)) == "10.24 GiB");
  CHECK(format_quantity(Bytes(1010 * 1024)) == "1010 KiB");
  CHECK(format_quantity(Flops(2.5e12)) == "2.5 TFLOP");
  CHECK(format_quantity(BytesPerSecond(25e9)) == "25 GB/s");
  CHECK(format_quantity(FlopsPerSecond(312e12)) == "312 TFLOP/s");
  CHECK(format_quantity(SecondsPerByte(0.23e-12)) == "230 fs/B");
  CHECK(format_quantity(SecondsPerFlop(176.8e-15)) == "176.8 fs/flop");
  CHECK(format_quantity(SecondsPerFlop(3.205e-18)) == "0.003205 fs/flop");
  CHECK(format_quantity(Seconds(std::numeric_limits<double>::infinity())) == "inf s");
}

TEST_CASE("What is printed reads back to four digits") {
  for (double exponent = -25; exponent <= 25; exponent += 0.37) {
    const double value = std::pow(10.0, exponent);
    INFO(value);
    CHECK(parse_quantity<Seconds>(format_quantity(Seconds(value))).value() == Approx(value).epsilon(6e-4));
    CHECK(parse_quantity<Bytes>(format_quantity(Bytes(value))).value() == Approx(value).epsilon(6e-4));
    CHECK(parse_quantity<BytesPerSecond>(format_quantity(BytesPerSecond(value))).value() ==
          Approx(value).epsilon(6e-4));
  }
}

TEST_CASE("Units do not depend on the locale") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8"})
    if (std::setlocale(LC_ALL, name)) break;
  CHECK(parse_quantity<Seconds>("12.5 us").value() == 12.5e-6);
  CHECK(format_quantity(Seconds(12.5e-6)) == "12.5 us");
  std::setlocale(LC_ALL, before.c_str());
}
