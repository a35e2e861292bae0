// SPDX-License-Identifier: Apache-2.0
#include "models/results/reproduction.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

namespace {

ReproducedValue value(Measure measure, std::optional<TableValue> published, TableValue ours,
                      Basis basis = Basis::Predicted) {
  ReproducedValue v;
  v.published = std::move(published);
  v.ours = std::move(ours);
  v.measure = measure;
  v.basis = v.published ? basis : Basis::Unpublished;
  return v;
}

bool met(Measure measure, TableValue published, TableValue ours, Basis basis = Basis::Predicted) {
  return verdict(value(measure, std::move(published), std::move(ours), basis)) == Verdict::Pass;
}

}  // namespace

TEST_CASE("errors are those of ratios: gains as speed-ups, savings as what they leave") {
  CHECK(error(value(Measure::Amount, 20.5, 25.6875)) == Approx(.25));  // 20.5 may be 20.45 to 20.55
  CHECK(error(value(Measure::Amount, .1, .06)) == Approx(0));          // .05 to .15
  CHECK(error(value(Measure::Amount, .1, .18)) == Approx(.2));
  CHECK(error(value(Measure::Speedup, 1.2, 1.5)) == Approx(.25));
  CHECK(error(value(Measure::Gain, 20., -4.)) == Approx(.96 / 1.2 - 1));
  CHECK(error(value(Measure::Saving, 20., 10.)) == Approx(.9 / .8 - 1));
  CHECK(error(value(Measure::Share, 50., 40.)) == Approx(-.2));
  CHECK_FALSE(error(value(Measure::Saving, 100., 10.)));  // nothing is left
  CHECK_FALSE(error(value(Measure::Amount, {}, 2.5)));
  CHECK_FALSE(error(value(Measure::Amount, 0.0, 2.5)));
  CHECK_FALSE(error(value(Measure::AtMost, 5., 2.5)));
  CHECK_FALSE(error(value(Measure::Choice, "a < b", "a < b")));
}

TEST_CASE("one rule says what is met: 15 % of amounts, .03 or 15 % of gains, the same words") {
  CHECK(met(Measure::Amount, 100., 115.));
  CHECK(met(Measure::Amount, .1, .05));
  CHECK_FALSE(met(Measure::Amount, .1, .16));
  CHECK_FALSE(met(Measure::Amount, 100., 115.1));
  CHECK(met(Measure::Speedup, 1.1, 1.13));  // .03 is more than 15 % of .1
  CHECK_FALSE(met(Measure::Speedup, 1.1, 1.131));
  CHECK(met(Measure::Speedup, 3., 2.7));  // .15 x 2
  CHECK_FALSE(met(Measure::Speedup, 3., 2.69));
  CHECK(met(Measure::Gain, 10., 7.));
  CHECK(met(Measure::Gain, 100., 115.));
  CHECK_FALSE(met(Measure::Gain, 100., 116.));
  CHECK(met(Measure::Saving, 40., 46.));
  CHECK(met(Measure::Choice, "a < b", "a < b"));
  CHECK_FALSE(met(Measure::Choice, "a < b", "b < a"));
  CHECK(met(Measure::AtMost, 5., 5.));
  CHECK_FALSE(met(Measure::AtMost, 5., 5.1));
  CHECK(met(Measure::AtLeast, 5., 9.));
  CHECK_FALSE(met(Measure::AtLeast, 5., 4.9));
}

TEST_CASE("an identity is met exactly, and what is not published is only shown") {
  CHECK(met(Measure::Amount, 100., 100., Basis::Identity));
  CHECK_FALSE(met(Measure::Amount, 100., 100.1, Basis::Identity));
  CHECK(verdict(value(Measure::Amount, {}, 9.)) == Verdict::Shown);
}

TEST_CASE("a shared constant is shown with and without: how many are met and how far off they are") {
  const auto table = [](double ours) {
    ReproducedTable t;
    t.id = "second";
    t.shared = {{"c", ".5", "first", "file", "1, by nobody"}};
    t.values = {value(Measure::Amount, 10., ours, Basis::Shares), value(Measure::Amount, 10., 10.)};
    t.values.front().constants = {"c"};
    return t;
  };
  Reproduction r;
  r.tables = {table(11)};
  r.without = {{"c", table(15)}};
  const std::vector<SharedSummary> shared = summarise_shared(r);
  REQUIRE(shared.size() == 1);
  CHECK(shared[0].users == std::vector<std::string>{"second"});
  CHECK((shared[0].with.met == 1 && shared[0].with.of == 1));
  CHECK((shared[0].without.met == 0 && shared[0].without.of == 1));
  CHECK(shared[0].mean_error.value() == Approx(11 / 10.5 - 1));  // 10 may be 9.5 to 10.5
  CHECK(shared[0].mean_error_without.value() == Approx(15 / 10.5 - 1));
}
