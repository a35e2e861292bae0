// SPDX-License-Identifier: Apache-2.0
// The clusters of the papers, asked about with no further options: the question is the paper's, and so is the order of
// its systems. Knobs that cannot act there are named.
#include <catch2/catch.hpp>

#include "bench/pipeline/idle_knobs.hpp"
#include "bench/reproduce/support.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;

namespace {

Experiment question_of(const std::string& cluster, const std::vector<std::string>& set = {}) {
  ExperimentRequest request;
  request.cluster = cluster;
  request.set = set;
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

std::string order(const std::string& cluster, const std::vector<std::string>& systems) {
  const Experiment experiment = question_of(cluster);
  FilesRead files;
  std::vector<std::pair<std::string, double>> steps;
  for (const std::string& system : systems)
    steps.emplace_back(system, step_seconds(experiment, load_system(system, files)));
  return in_order(steps);
}

std::vector<std::string> idle(const Experiment& experiment, const std::vector<std::string>& systems) {
  Report report;
  report.experiment = experiment;
  FilesRead files;
  for (const std::string& name : systems) {
    const System system = load_system(name, files);
    SystemResult& result = report.results.emplace_back();
    result.system = name;
    result.plan = system.plan;
    result.planner.name = system.planner.name;
  }
  return idle_knobs(report);
}

}  // namespace

TEST_CASE("on the cluster of a paper its systems come in the paper's order") {
  CHECK(order("a800-8", {"fastmoe", "tutel", "ampipe"}) == "ampipe < tutel < fastmoe");
  CHECK(order("a10g-4", {"fastmoe", "tutel", "ampipe"}) == "ampipe < tutel < fastmoe");
  CHECK(order("ndv4", {"fastmoe", "tutel"}) == "tutel < fastmoe");
  CHECK(order("dgx-a100-40gb", {"fastmoe", "pipemoe_micro", "mpipemoe"}) == "pipemoe_micro < mpipemoe < fastmoe");
  const std::vector<std::string> of_fsmoe{"deepspeed_moe",  "pipemoe",      "pipemoe_lina",
                                          "tutel_improved", "fsmoe_no_iio", "fsmoe"};
  for (const char* testbed : {"fsmoe-testbed-a", "fsmoe-testbed-b"})
    CHECK(order(testbed, of_fsmoe) == "fsmoe < fsmoe_no_iio < tutel_improved < pipemoe_lina < pipemoe < deepspeed_moe");
}

TEST_CASE("the sizes that a paper's cluster suggests are the paper's") {
  const Experiment e = question_of("dgx-a100-40gb");
  CHECK(e.model.name == "moe-gpt3-xl");
  CHECK(e.workload.dtype == DType::Fp32);
  CHECK(e.workload.batch * e.workload.sequence == 16384);
  CHECK((e.parallelism.mp == 1 && e.parallelism.ep == 64 && e.parallelism.esp == 1));
}

TEST_CASE("knobs that cannot act in the question's groups are named with the reason") {
  const Experiment one_node = question_of("a800-8");
  REQUIRE(idle(one_node, {"tutel", "tutel_2dh"}).size() == 1);
  CHECK_THAT(idle(one_node, {"tutel", "tutel_2dh"}).front(),
             Contains("tutel_2dh: plan.all_to_all") && Contains("the 8 GPUs that exchange rows are on one node"));
  const Experiment two_nodes = question_of("ndv4");
  REQUIRE(idle(two_nodes, {"tutel_2dh", "tutel_adaptive"}).size() == 1);
  CHECK_THAT(idle(two_nodes, {"tutel_2dh", "tutel_adaptive"}).front(),
             Contains("tutel_adaptive: plan.expert_sharding"));
  CHECK(idle(question_of("ndv4", {"parallelism.esp=2"}), {"tutel_2dh", "tutel_adaptive"}).empty());
  const Experiment alone = question_of("a800-8", {"parallelism.ep=1"});
  CHECK_THAT(idle(alone, {"tutel"}).front(), Contains("each GPU has all experts"));
}
