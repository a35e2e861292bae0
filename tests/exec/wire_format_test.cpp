// SPDX-License-Identifier: Apache-2.0
#include "exec/step/wire_format.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using dovetail::test::Values;

TEST_CASE("bf16 keeps seven digits after the first, ties to even") {
  CHECK(to_bf16(1) == 1);
  CHECK(to_bf16(-3.140625) == -3.140625);        // 0b11.001001
  CHECK(to_bf16(1 + 0x1p-8) == 1);               // midway between 1 and 1 + 2^-7: to the even one
  CHECK(to_bf16(1 + 3 * 0x1p-8) == 1 + 0x1p-6);  // midway between odd 1 + 2^-7 and even 1 + 2^-6
  CHECK(to_bf16(1 + 0x1.1p-8) == 1 + 0x1p-7);
  CHECK(to_bf16(0) == 0);
}

TEST_CASE("e4m3 keeps three digits after the first, from 2^-9 to 448") {
  CHECK(to_e4m3(448) == 448);
  CHECK(to_e4m3(500) == 448);
  CHECK(to_e4m3(-17) == -16);  // steps of 2 from 16 on; midway, 16 is even
  CHECK(to_e4m3(19) == 20);    // midway between odd 18 = 9 * 2 and even 20 = 10 * 2
  CHECK(to_e4m3(0x1p-6 + 0x1p-9) == 0x1p-6 + 0x1p-9);
  CHECK(to_e4m3(.7 * 0x1p-9) == 0x1p-9);  // subnormal
  CHECK(to_e4m3(.5 * 0x1p-9) == 0);
}

TEST_CASE("An fp8 row is scaled by its largest element") {
  Values row{-896, 2, 30};  // scale 2: -448, 1, 15
  round_row(Wire::Fp8, row);
  CHECK(row == Values{-896, 2, 30});
  row = {-896, 2, 34};  // 17: midway between 16 and 18
  round_row(Wire::Fp8, row);
  CHECK(row == Values{-896, 2, 32});
  row = {0, 0};
  round_row(Wire::Fp8, row);
  CHECK(row == Values{0, 0});
}

TEST_CASE("Rows that were compressed and decompressed are rounded") {
  const Wire wire = GENERATE(Wire::Bf16, Wire::Fp8);
  constexpr std::int64_t rows = 3, hidden = 5;
  const Values from = test::random_values(rows * hidden, 1);
  Values sent(static_cast<std::size_t>(rows * (hidden + (wire == Wire::Fp8 ? 4 : 0)))), to(from.size());
  compress_rows(wire, rows, hidden, from.data(), sent.data());
  decompress_rows(wire, rows, hidden, sent.data(), to.data());
  for (std::size_t i = 0; i < rows; ++i) {
    Values row(from.begin() + static_cast<std::ptrdiff_t>(i) * hidden,
               from.begin() + static_cast<std::ptrdiff_t>(i + 1) * hidden);
    const double largest = std::fabs(*std::ranges::max_element(row, {}, [](double x) { return std::fabs(x); }));
    const Values exact = row;
    round_row(wire, row);
    for (std::size_t m = 0; m < hidden; ++m) {
      CHECK(to[i * hidden + m] == row[m]);
      CHECK(std::fabs(row[m] - exact[m]) <= spacing_of(wire) / 2 * std::max(std::fabs(exact[m]), largest * 0x1p-12));
    }
    CHECK(row != exact);
  }
}
