// SPDX-License-Identifier: Apache-2.0
// Goals, differences of ops and ways to restore, each with its arithmetic; times are made up.
#include "reports/data/validation_goals.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/data/validation_report.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::reports;

namespace {

PlanOutcome restored(Restore restore, double predicted, double measured) {
  PlanOutcome plan;
  plan.system = "mpipemoe";
  plan.plan.restore = restore;
  plan.plan.buffers = restore == Restore::Keep ? Buffers::PerChunk : Buffers::Double;
  plan.predicted = Seconds(predicted);
  plan.samples = {Seconds(measured)};
  plan.median = plan.ci95_low = plan.ci95_high = Seconds(measured);
  plan.ops = {{OpKind::Expert, Phase::Forward, false, Seconds(1), Seconds(1.5)},
              {OpKind::Dispatch, Phase::Forward, true, Seconds(2), Seconds(2.25)}};
  return plan;
}

Validation two_strategies() {
  Validation v;
  v.experiment = test::round_numbers(1);
  v.cells.push_back({"small",
                     {restored(Restore::S4, 1.02, 1), restored(Restore::Keep, 1, 1), restored(Restore::S1, 2, 2)},
                     {{"mpipemoe", "p", 0}}});
  v.cells[0].plans[2].plan.forward_degree = 4;
  return v;
}

}  // namespace

TEST_CASE("Goals are hit up to their bound") {
  Validation v = two_strategies();
  std::vector<Goal> all = goals(v);
  REQUIRE(all.size() == 2);
  CHECK(all[0].value == Approx(.02 / 3));  // errors .02, 0 and 0
  CHECK(all[0].hit());
  CHECK(all[1].value == 0);  // both plans took 1 s
  CHECK(all[1].hit());
  v.cells[0].plans[0].predicted = Seconds(1.2);
  v.cells[0].plans[1].median = v.cells[0].plans[1].samples[0] = Seconds(.8);
  all = goals(v);
  CHECK(all[0].value == Approx((.2 + .25) / 3));  // 1.2 / 1 and 1 / .8
  CHECK_FALSE(all[0].hit());
  CHECK(all[1].value == Approx(.25));  // 1 s against .8 s
  CHECK_FALSE(all[1].hit());
  v.cells[0].choices.clear();
  CHECK(std::isnan(goals(v)[1].value));
  CHECK_FALSE(goals(v)[1].hit());
}

TEST_CASE("Differences of ops are summed over plans, the largest first") {
  const Validation v = two_strategies();
  const std::vector<OpTimes> all = op_differences(v);
  REQUIRE(all.size() == 2);
  CHECK(all[0].op == OpKind::Expert);  // .5 in each of three plans, against .25
  CHECK(all[0].measured == Seconds(4.5));
  CHECK(all[1].predicted == Seconds(6));
  CHECK(largest_difference(v.cells[0].plans[0])->op == OpKind::Expert);
  CHECK(largest_difference(PlanOutcome()) == nullptr);
}

TEST_CASE("Plans that differ only in how they restore stand together, in the order of the strategies") {
  const Validation v = two_strategies();
  const std::vector<RestoreGroup> groups = restore_groups(v);
  REQUIRE(groups.size() == 1);
  REQUIRE(groups[0].plans.size() == 2);
  CHECK(groups[0].plans[0]->plan.restore == Restore::Keep);
  CHECK(groups[0].plans[1]->plan.restore == Restore::S4);
}

TEST_CASE("Errors of kernels are of points with a prediction, by kind and of all") {
  DeviceStudy device;
  const auto add = [&](DeviceWorkKind what, double measured, std::optional<Seconds> predicted) {
    device.points.push_back({});
    device.points.back().what = what;
    device.points.back().median = Seconds(measured);
    device.points.back().predicted = predicted;
  };
  CHECK(point_errors(device).empty());
  add(DeviceWorkKind::Product, 1, Seconds(1.1));
  add(DeviceWorkKind::Product, 1, {});
  add(DeviceWorkKind::Copy, 2, Seconds(1));
  add(DeviceWorkKind::Product, 1, Seconds(.7));
  const std::vector<PointError> errors = point_errors(device);
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].what == "product");
  CHECK(errors[0].points == 2);
  CHECK(errors[0].mean == Approx(.2));  // .1 and .3
  CHECK(errors[0].worst == Approx(-.3));
  CHECK(errors[1].what == "copy");
  CHECK(errors[2].what == "all");
  CHECK(errors[2].mean == Approx(.3));  // .1, .5 and .3
  CHECK(errors[2].worst == Approx(-.5));
}

TEST_CASE("A partial validation with a device's points keeps to its schema and says so") {
  Validation v = two_strategies();
  v.measurements = {3, 6};
  DevicePoint ours, peer;
  ours.flops = peer.flops = 4e9;
  ours.rows = ours.inner = ours.columns = 8;
  ours.median = Seconds(2e-3);
  peer.median = Seconds(1e-3);
  ours.samples = peer.samples = 5;
  ours.predicted = Seconds(1e-3);
  peer.rows = peer.inner = peer.columns = 8;
  DevicePoint beside = ours;
  beside.what = DeviceWorkKind::Exchange;
  beside.blocks = 16;
  beside.beside = "a<b";
  beside.kept_speed = .75;
  v.device.points = {ours, beside};
  v.device.peers = {{"up, forward", ours, peer}};
  v.device.labels = {{"gpu", "made <up>"}};
  v.device.step = StepComparison{"a step", "tutel", Seconds(1), Seconds(.9), Seconds(1.1), Seconds(3), Seconds(2)};
  CHECK(v.device.peers[0].efficiency() == .5);  // half as fast
  CHECK_NOTHROW(validate(JsonFile::parse(to_json(v).dump(), "v"), load_schema("validation")));
  std::ostringstream table, page;
  write_table(table, v, false);
  write_html(page, v);
  const auto says = [](const std::ostringstream& out, const std::string& text) {
    return out.str().find(text) != std::string::npos;
  };
  CHECK(says(table, "mean absolute error of predicted steps at most 3.00 %: hit (0.67 %)"));
  CHECK(says(page, "3 of 6 measurements"));
  CHECK(says(page, "50.0 %"));
  CHECK(says(page, "75.0 %"));
  CHECK(says(page, "made &lt;up&gt;"));
  CHECK_FALSE(says(page, "a<b"));
  v.cells[0].plans[0].predicted = Seconds(2);
  std::ostringstream missed;
  write_html(missed, v);
  CHECK(says(missed, "<strong>MISS</strong>"));
  CHECK(says(missed, "+1.50 s"));  // three plans, half a second each
}
