// SPDX-License-Identifier: Apache-2.0
#include "models/results/reproduction.hpp"

#include <catch2/catch.hpp>

using namespace dovetail;

namespace {

ReproducedValue value(std::optional<TableValue> published, TableValue ours, Target target) {
  ReproducedValue v;
  v.published = std::move(published);
  v.ours = std::move(ours);
  v.target = target;
  return v;
}

}  // namespace

TEST_CASE("errors are relative, but for absolute targets") {
  CHECK(error(value(2.0, 2.5, {})) == Approx(.25));
  CHECK(error(value(2.0, 2.5, {TargetKind::Absolute, 1})) == Approx(.5));
  CHECK_FALSE(error(value({}, 2.5, {})));
  CHECK_FALSE(error(value(0.0, 2.5, {})));
  CHECK_FALSE(error(value("a < b", "a < b", {})));
}

TEST_CASE("verdicts by kind of target") {
  const auto verdict_of = [](std::optional<TableValue> published, TableValue ours, TargetKind kind, double bound = 0) {
    return verdict(value(std::move(published), std::move(ours), {kind, bound}));
  };
  CHECK(verdict_of(1.0, 9.0, TargetKind::Shown) == Verdict::Shown);
  CHECK(verdict_of(1.18, 1.20, TargetKind::Absolute, .03) == Verdict::Pass);
  CHECK(verdict_of(1.18, 1.14, TargetKind::Absolute, .03) == Verdict::Miss);
  CHECK(verdict_of(100., 96., TargetKind::Relative, .05) == Verdict::Pass);
  CHECK(verdict_of(100., 94., TargetKind::Relative, .05) == Verdict::Miss);
  CHECK(verdict_of({}, 94., TargetKind::Relative, .05) == Verdict::Miss);  // nothing to be near to
  CHECK(verdict_of({}, 5., TargetKind::AtMost, 5) == Verdict::Pass);
  CHECK(verdict_of({}, 5.1, TargetKind::AtMost, 5) == Verdict::Miss);
  CHECK(verdict_of({}, 5., TargetKind::AtLeast, 5) == Verdict::Pass);
  CHECK(verdict_of({}, 4.9, TargetKind::AtLeast, 5) == Verdict::Miss);
  CHECK(verdict_of("a < b", "a < b", TargetKind::Equal) == Verdict::Pass);
  CHECK(verdict_of("a < b", "b < a", TargetKind::Equal) == Verdict::Miss);
  CHECK(verdict_of(56., 56., TargetKind::Equal) == Verdict::Pass);
  CHECK(verdict_of(56., 55., TargetKind::Equal) == Verdict::Miss);
}
