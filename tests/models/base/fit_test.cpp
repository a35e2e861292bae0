// SPDX-License-Identifier: Apache-2.0
#include "models/base/fit.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"

using namespace dovetail;

TEST_CASE("times on a line give back its alpha and beta") {
  // 12 us + n * 3 ns: 1,000: 15 us, 11,000: 45 us, 101,000: 315 us
  const LineFit fit = fit_line({{101000, Seconds(315e-6)}, {1000, Seconds(15e-6)}, {11000, Seconds(45e-6)}});
  CHECK(fit.alpha.value() == Approx(12e-6).epsilon(1e-10));
  CHECK(fit.beta.value() == Approx(3e-9).epsilon(1e-10));
  REQUIRE(fit.quality.points.size() == 3);
  CHECK(fit.quality.points.front().size == 1000);
  CHECK(fit.quality.points.back().size == 101000);
  CHECK(fit.quality.r2 == Approx(1));
  CHECK(worst_error(fit.quality) < 1e-10);
}

TEST_CASE("the fit is least in relative errors, not in seconds") {
  // Times 1 s, 2 s and 200 s at n = 0, 1 and 100, and a second time of 2.5 s at n = 1. In x = alpha, y = beta the rows
  // (1/t, n/t) are (1, 0), (1/2, 1/2), (1/200, 1/2), (2/5, 2/5), each to be 1. Normal equations:
  //   sum 1/t^2 = 1 + .25 + .000025 + .16 = 1.410025      sum n/t^2 = .25 + .0025 + .16 = .4125      sum 1/t = 1.905
  //   sum n^2/t^2 = .25 + .25 + .16 = .66                  sum n/t = .5 + .5 + .4 = 1.4
  //   determinant 1.410025 x .66 - .4125^2 = .93061650 - .17015625 = .76046025
  //   alpha = (1.905 x .66 - .4125 x 1.4) / .76046025 = .6798 / .76046025 = .8939323
  //   beta = (1.410025 x 1.4 - .4125 x 1.905) / .76046025 = 1.1882225 / .76046025 = 1.5625044
  const LineFit fit = fit_line({{0, Seconds(1)}, {1, Seconds(2)}, {100, Seconds(200)}, {1, Seconds(2.5)}});
  CHECK(fit.alpha.value() == Approx(.8939323).epsilon(1e-6));
  CHECK(fit.beta.value() == Approx(1.5625044).epsilon(1e-6));
  // At n = 0: .8939323 / 1 - 1; at n = 100: (.8939323 + 156.25044) / 200 - 1 = -.214278; at n = 1 and 2 s:
  // 2.4564367 / 2 - 1 = .228218, the worst.
  CHECK(fit.quality.points.front().error == Approx(-.1060677).epsilon(1e-5));
  CHECK(fit.quality.points.back().error == Approx(-.214278).epsilon(1e-4));
  CHECK(worst_error(fit.quality) == Approx(.228218).epsilon(1e-4));
  // Weighted mean: sum 1/t / sum 1/t^2 = 1.905 / 1.410025 = 1.351040. Errors of the mean: .351040, -.324480, -.993245,
  // -.459584; squares .123229 + .105287 + .986535 + .211217 = 1.426269. Errors of the fit: -.106068, .228218, -.214278,
  // -.017425; squares .011250 + .052083 + .045915 + .000304 = .109552.
  CHECK(fit.quality.r2 == Approx(1 - .109552 / 1.426269).epsilon(1e-4));
}

TEST_CASE("neither alpha nor beta becomes negative") {
  // Through (1, 1 s) and (2, 3 s) goes 2 n - 1. With alpha = 0: beta = sum n/t / sum (n/t)^2, n/t = 1 and 2/3:
  // (5/3) / (13/9) = 15/13.
  const LineFit steep = fit_line({{1, Seconds(1)}, {2, Seconds(3)}});
  CHECK(steep.alpha == Seconds(0));
  CHECK(steep.beta.value() == Approx(15. / 13));
  // Larger is faster: beta = 0, alpha = sum 1/t / sum 1/t^2 = (1/2 + 1) / (1/4 + 1) = 6/5.
  const LineFit falling = fit_line({{1, Seconds(2)}, {2, Seconds(1)}});
  CHECK(falling.beta == Seconds(0));
  CHECK(falling.alpha.value() == Approx(1.2));
}

TEST_CASE("a fit needs two sizes and positive times") {
  CHECK_THROWS_AS(fit_line({}), InputError);
  CHECK_THROWS_AS(fit_line({{8, Seconds(1)}, {8, Seconds(2)}}), InputError);
  CHECK_THROWS_AS(fit_line({{8, Seconds(1)}, {9, Seconds(0)}}), InputError);
}

TEST_CASE("terms give back their coefficients, and those that do not help stay 0") {
  // 5 us + 2 ns * a + 0 * b: (a, b) of (1000, 7): 7 us, (4000, 1): 13 us, (2000, 9): 9 us, (500, 3): 6 us.
  const TermsFit fit = fit_terms({{{1, 1000, 7}, Seconds(7e-6)},
                                  {{1, 4000, 1}, Seconds(13e-6)},
                                  {{1, 2000, 9}, Seconds(9e-6)},
                                  {{1, 500, 3}, Seconds(6e-6)}});
  CHECK(fit.coefficients[0].value() == Approx(5e-6));
  CHECK(fit.coefficients[1].value() == Approx(2e-9));
  CHECK(fit.coefficients[2] == Seconds(0));
  for (const double error : fit.errors) CHECK(error == Approx(0).margin(1e-9));
}

TEST_CASE("no coefficient becomes negative, and few points have few of them") {
  // Larger is faster, as above: only the constant is left, 6/5.
  const TermsFit falling = fit_terms({{{1, 1}, Seconds(2)}, {{1, 2}, Seconds(1)}});
  CHECK(falling.coefficients[0].value() == Approx(1.2));
  CHECK(falling.coefficients[1] == Seconds(0));
  CHECK(falling.errors[0] == Approx(-.4));
  // Through (1, 2 s) and (3, 4 s) goes n + 1, but two points carry one coefficient. The constant alone:
  // (1/2 + 1/4) / (1/4 + 1/16) = 2.4, errors .2 and -.4; n alone: (1/2 + 3/4) / (1/4 + 9/16) = 1.538, errors -.23 and
  // .15, which are less.
  const TermsFit rising = fit_terms({{{1, 1}, Seconds(2)}, {{1, 3}, Seconds(4)}});
  CHECK(rising.coefficients[0] == Seconds(0));
  CHECK(rising.coefficients[1].value() == Approx(1.25 / .8125));
}

TEST_CASE("a fit of terms needs points with as many terms and positive times") {
  CHECK_THROWS_AS(fit_terms({}), InputError);
  CHECK_THROWS_AS(fit_terms({{{1, 2}, Seconds(1)}, {{1}, Seconds(1)}}), InputError);
  CHECK_THROWS_AS(fit_terms({{{1}, Seconds(0)}}), InputError);
}
