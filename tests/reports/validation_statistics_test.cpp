// SPDX-License-Identifier: Apache-2.0
// Statistics of validations, each with its arithmetic.
#include "reports/data/validation_statistics.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "reports/data/validation_report.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::reports;

namespace {

PlanOutcome outcome(const char* system, double predicted, const std::vector<double>& samples) {
  PlanOutcome plan;
  plan.system = system;
  plan.predicted = Seconds(predicted);
  for (double sample : samples) plan.samples.emplace_back(sample);
  plan.median = plan.samples[plan.samples.size() / 2];
  return plan;
}

}  // namespace

TEST_CASE("The mean error is over plans, its interval over cells") {
  Validation v;
  v.cells.push_back({"small", {outcome("a", 1.1, {1, 1, 1}), outcome("a", .9, {1, 1, 1})}, {}});
  v.cells.push_back({"large", {outcome("a", 6, {5, 5, 5}), outcome("a", 5, {5, 5, 5})}, {}});
  // Errors .1 .1 and .2 0: mean .1 in both cells, so resampling cells changes nothing.
  const Estimate error = mean_error(v);
  CHECK(error.value == Approx(.1));
  CHECK(error.low == Approx(.1));
  CHECK(error.high == Approx(.1));
  CHECK(worst_plan(v).cell->name == "large");
  CHECK(worst_plan(v).plan->error() == Approx(.2));
  v.cells[1].plans[0].predicted = Seconds(8);  // errors .1 .1 .6 0: mean .2; a resample of "large" alone has .3
  CHECK(mean_error(v).value == Approx(.2));
  CHECK(mean_error(v).low == Approx(.1));
  CHECK(mean_error(v).high == Approx(.3));
}

TEST_CASE("Measurements are compared with themselves, every second round with the others") {
  Validation v;
  v.cells.push_back({"c", {outcome("a", 9, {1.0, 1.1, 1.0, 1.1, 1.0}), outcome("a", 9, {2.0, 2.0, 2.0})}, {}});
  const auto again = repeatability(v);
  REQUIRE(again);
  CHECK(again->mean_error == Approx(.05));  // 1.1 for 1.0, and 2.0 for 2.0
  CHECK(again->rank_correlation == Approx(1));
  v.cells[0].plans = {outcome("a", 1, {1.0})};
  CHECK(!repeatability(v));
}

TEST_CASE("Regret is against the fastest measured plan of the same system") {
  ValidationCell cell{
      "c",
      {outcome("a", 1, {1.2, 1.2, 1.2}), outcome("a", 2, {1.0, 1.0, 1.0}), outcome("b", 1, {.5, .5, .5})},
      {{"a", "exhaustive", 0}, {"b", "fixed", 2}}};
  CHECK(regret(cell, cell.choices[0]).value == Approx(.2));
  CHECK(regret(cell, cell.choices[0]).low == Approx(.2));
  CHECK(regret(cell, cell.choices[1]).value == Approx(0));
  // A tie has no regret, but noisy samples say how sure that is. In the first round the other plan is the fastest of
  // the other two rounds, 1 against the median of 1 and 1.1, and slower: .9 / 1 - 1. In the last two rounds it is not
  // faster.
  cell.plans[0] = outcome("a", 1, {.9, 1.0, 1.1});
  const Estimate tie = regret(cell, cell.choices[0]);
  CHECK(tie.value == Approx(0).margin(1e-12));
  CHECK(tie.low == Approx(-.1));
  CHECK(tie.high == Approx(0).margin(1e-12));
}

TEST_CASE("Regrets of a planner are summed up over cells") {
  Validation v;
  v.cells.push_back({"one", {outcome("a", 1, {1.1, 1.1, 1.1}), outcome("a", 2, {1, 1, 1})}, {{"a", "p", 0}}});
  v.cells.push_back({"two", {outcome("a", 1, {1, 1, 1}), outcome("a", 2, {2, 2, 2})}, {{"a", "p", 0}}});
  const std::vector<PlannerRegret> regrets = planner_regrets(v);
  REQUIRE(regrets.size() == 1);
  CHECK(regrets[0].mean.value == Approx(.05));  // .1 and 0
  CHECK(regrets[0].mean.low == Approx(.05));    // rounds do not differ
  CHECK(regrets[0].behind_all.value == Approx(.05));
  CHECK(regrets[0].worst == Approx(.1));
  CHECK(regrets[0].worst_cell == "one");
  CHECK(regrets[0].cells == 2);
}

TEST_CASE("A planner is also judged against other systems, and where computation or links bound the step") {
  Validation v;
  v.cells.push_back({"one", {outcome("a", 1, {1.1, 1.1, 1.1}), outcome("b", 2, {1, 1, 1})}, {{"a", "p", 0}}});
  v.cells.push_back(v.cells[0]);
  v.cells[0].plans[0].emulated_share = .7;  // 7 of 3 is more than 1.5
  v.cells[1].plans[0].emulated_share = .5;
  v.cells[1].plans[1].emulated_share = .1;  // has more chunks, so that it does not count
  v.cells[1].plans[1].plan.forward_degree = 2;
  CHECK(links_to_computation(v.cells[0]) == Approx(7.0 / 3));
  CHECK(regime_of(v.cells[0]) == Regime::Links);
  CHECK(regime_of(v.cells[1]) == Regime::Mixed);
  const std::vector<PlannerRegret> regrets = planner_regrets(v);
  REQUIRE(regrets.size() == 1);
  CHECK(regrets[0].mean.value == 0);  // the only plan of its system
  CHECK(regrets[0].behind_all.value == Approx(.1));
  REQUIRE(regrets[0].by_regime.size() == 2);
  CHECK(regrets[0].by_regime[0].first == Regime::Mixed);
  CHECK(regret_where(regrets[0], Regime::Links) == "0.00");
  CHECK(regret_where(regrets[0], Regime::Computation) == "-");
  v.cells[1].plans[0].emulated_share = .3;
  CHECK(regime_of(v.cells[1]) == Regime::Computation);
}

TEST_CASE("A validation as JSON keeps to its schema, table and page say how far off it is") {
  Validation v;
  v.experiment = test::round_numbers(1);
  const Provenance here{Origin::Measured, "here"};
  v.kernels = {{OpKind::Expert, Phase::Backward, Seconds(1e-5), 1.5, {}, here},
               {OpKind::Gate, Phase::Forward, Seconds(1e-5), 1, WorkRates{SecondsPerFlop(1e-12), {}, {}, {}}, here}};
  v.cells.push_back(
      {"small", {outcome("a<b", 1.1, {1, 1, 1}), outcome("a<b", 2, {2, 2, 2})}, {{"a<b", "exhaustive", 1}}});
  v.cells[0].plans[1].numerics_ok = true;
  v.cells[0].plans[1].ops = {{OpKind::Dispatch, Phase::Forward, true, Seconds(1), Seconds(2)}};
  CHECK_NOTHROW(validate(JsonFile::parse(to_json(v).dump(), "v"), load_schema("validation")));
  std::ostringstream table, page;
  write_table(table, v, false);
  write_html(page, v);
  CHECK(table.str().find("mean absolute error 5.00 %") != std::string::npos);  // .1 and 0
  CHECK(table.str().find("100.00  100.00 - 100.00") != std::string::npos);     // 2 s against 1 s
  CHECK(page.str().find("<circle") != std::string::npos);
  for (const std::ostringstream* out : {&table, &page})
    CHECK(out->str().find("nothing of the accuracy of the links' costs") != std::string::npos);
  CHECK(page.str().find("a<b") == std::string::npos);
  CHECK(page.str().find("a&lt;b") != std::string::npos);
  v.kernels_held = true;
  std::ostringstream held, held_page;
  write_table(held, v, false);
  write_html(held_page, v);
  CHECK(held.str().find("the error is of scheduling and overlap alone") != std::string::npos);
  CHECK(held_page.str().find("scheduling and overlap alone and says nothing of the accuracy of costs.") !=
        std::string::npos);
}

TEST_CASE("Predictions without a fit have an error of their own, and best degrees are counted") {
  Validation v;
  v.experiment = test::round_numbers(1);
  v.cells.push_back({"one",
                     {outcome("a", 1, {1, 1, 1}), outcome("a", 1, {2, 2, 2}), outcome("b", 1, {1, 1, 1})},
                     {{"a", "p", 0}, {"b", "p", 2}}});
  CHECK_FALSE(mean_unfitted_error(v));
  CHECK_FALSE(best_degrees(v));
  std::vector<PlanOutcome>& plans = v.cells[0].plans;
  plans[0].unfitted = Seconds(1.2);
  plans[1].unfitted = Seconds(1.8);
  plans[2].unfitted = Seconds(1);
  REQUIRE(mean_unfitted_error(v));
  CHECK(mean_unfitted_error(v)->value == Approx(.1));  // .2, .1 and 0
  v.largest_degree = 4;
  v.unfitted_by = "some<where";
  v.copy = MemoryCost{Seconds(1e-5), SecondsPerByte(2e-11), {Origin::Measured, "here"}};
  plans[0].plan.forward_degree = 2;  // the best of a
  plans[1].plan.forward_degree = 4;
  plans[2].plan.backward_degree = 4;
  REQUIRE(best_degrees(v));
  CHECK(best_degrees(v)->choices == 2);
  CHECK(best_degrees(v)->smaller == 1);
  plans[2].plan.backward_degrees = {2};  // in place of the single one
  CHECK(best_degrees(v)->smaller == 2);
  CHECK(best_degrees(v)->inside == 0);  // one pass of a, and one of b, has one chunk
  plans[0].plan.backward_degree = 3;
  CHECK(best_degrees(v)->inside == 1);
  v.online = {{"bucketed_search", "a", "links x 4", 2, 3, 100, 10, .1, .05, .2, .01}};
  const nlohmann::ordered_json json = to_json(v);
  CHECK_NOTHROW(validate(JsonFile::parse(json.dump(), "v"), load_schema("validation")));
  CHECK(json["cells"][0]["plans"][0]["predicted_unfitted_s"] == 1.2);
  CHECK(json["summary"]["best_degrees"]["smaller"] == 2);
  std::ostringstream table, page;
  write_table(table, v, false);
  write_html(page, v);
  CHECK(table.str().find("without any fit, by costs of some<where: 10.00 %") != std::string::npos);
  CHECK(page.str().find("by costs of some&lt;where") != std::string::npos);
  for (const std::ostringstream* out : {&table, &page})
    CHECK(out->str().find("In 2 of 2 (size, system) the fastest measured plan has another degree") !=
          std::string::npos);
}
