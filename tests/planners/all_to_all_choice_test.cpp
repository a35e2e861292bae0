// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "planners/catalog/registry.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/planners/random_costs.hpp"
#include "tests/support/cases.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

PlanChoice choose(const Experiment& e, const std::string& planner, const Plan& base, const std::vector<int>& degrees) {
  return find_planner(planner).choose({e, base, {planner, degrees, true}}, analytic_evaluator(e));
}

// Tutel's cluster; one layer whose all-to-all carries `mebibytes` a GPU.
Experiment azure(int gpus, int mebibytes) {
  ExperimentRequest request;
  request.cluster = "ndv4";
  request.model = "moe-gpt3-xl";  // M 2048: 4 KiB a token in fp16
  request.nodes = gpus / 8;
  request.set = {"workload.layers=1",   "workload.capacity_factor=1",
                 "workload.dtype=fp16", "parallelism.count_per_node=2",
                 "parallelism.mp=1",    "workload.sequence=" + std::to_string(mebibytes * 256)};
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

}  // namespace

TEST_CASE("all_to_all_choice: as fast as the best of all exchanges, each with its best degree") {
  std::mt19937 engine(31);
  const std::vector<int> degrees{1, 2, 4};
  int linear = 0, others = 0;
  for (int i = 0; i < test::cases(300); ++i) {
    Experiment e = azure(16 << test::integer(engine, 0, 3), 1 << test::integer(engine, 0, 6));
    test::scale_costs(e.calibration.edit(), engine);
    for (MessageCost& m : e.calibration.edit().messages) m.per_message = m.per_message * test::real(engine, .2, 5);
    const Evaluator evaluate = analytic_evaluator(e);
    const PlanChoice choice = choose(e, "all_to_all_choice", test::moe_plan(), degrees);
    double best = 1e300;
    for (const auto& [name, algorithm] : all_to_all_names)
      for (const auto& [implementation_name, implementation] : all_to_all_implementation_names)
        for (const auto& [protocol_name, protocol] : protocol_names) {
          Plan base = test::moe_plan();
          base.all_to_all = algorithm;
          base.all_to_all_implementation = implementation;
          base.protocol = protocol;
          try {
            best = std::min(best, evaluate(choose(e, "exhaustive", base, degrees).plan).value());
          } catch (const InputError&) {  // cannot be built here
          }
        }
    INFO("case " << i << ": " << choice.report.reason);
    REQUIRE(evaluate(choice.plan).value() == Approx(best));
    ++(choice.plan.all_to_all == AllToAll::Linear ? linear : others);
  }
  CHECK(linear > 5);
  CHECK(others > 5);
}

// Figure 20: small messages at scale are what hierarchical exchanges are for; large ones over few ranks are not.
TEST_CASE("all_to_all_choice: linear for much data on few GPUs, in two steps for little on many") {
  CHECK(choose(azure(16, 256), "all_to_all_choice", test::moe_plan(), {1}).plan.all_to_all == AllToAll::Linear);
  const PlanChoice many = choose(azure(512, 1), "all_to_all_choice", test::moe_plan(), {1});
  INFO(many.report.reason);
  CHECK(many.plan.all_to_all != AllToAll::Linear);
  CHECK_THAT(many.report.reason, Catch::Contains("linear by simple messages"));
}
