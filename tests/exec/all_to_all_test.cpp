// SPDX-License-Identifier: Apache-2.0
// All-to-alls in steps, really done.
#include "models/plan/collectives/all_to_all.hpp"

#include <catch2/catch.hpp>

#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

struct Nodes {
  int nodes = 2, per_node = 2, esp = 1;
  std::vector<int> levels = {};  // none: per node, nodes
};

Experiment on(const Nodes& n) {
  SmallExperiment s;
  s.dp = n.nodes;
  s.mp = n.per_node;
  s.ep = n.nodes * n.per_node / n.esp;
  s.esp = n.esp;
  s.experts = s.ep;
  s.layers = 2;
  s.sequence = 48;  // at least 3 rows per expert: chunks differ
  return small_experiment(s);
}

Plan stepped(AllToAll algorithm, AllToAllImplementation implementation, CommStreams streams) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 2;
  plan.backward_degree = 3;
  plan.all_to_all = algorithm;
  plan.all_to_all_implementation = implementation;
  plan.comm_streams = streams;
  return plan;
}

// All but the linear one, which has no steps.
std::vector<AllToAll> algorithms_in_steps() {
  std::vector<AllToAll> names;
  for (const AllToAllAlgorithm& algorithm : all_to_all_algorithms)
    if (algorithm.name != AllToAll::Linear) names.push_back(algorithm.name);
  return names;
}

}  // namespace

TEST_CASE("Every all-to-all algorithm computes what the reference does") {
  const Nodes nodes = GENERATE(Nodes{2, 2}, Nodes{3, 2}, Nodes{2, 3}, Nodes{2, 4}, Nodes{4, 2}, Nodes{2, 4, 2},
                               Nodes{4, 2, 1, {2, 2, 2}}, Nodes{2, 4, 1, {2, 2, 2}});
  for (AllToAll algorithm : algorithms_in_steps()) {
    Plan plan = stepped(algorithm, AllToAllImplementation::PointToPoint, CommStreams::InterIntra);
    plan.all_to_all_levels = nodes.levels;
    check_numerics(on(nodes), plan);
  }
}

TEST_CASE("Fused steps, and steps on one stream, compute the same") {
  const auto algorithm = GENERATE(from_range(algorithms_in_steps()));
  check_numerics(on({}), stepped(algorithm, AllToAllImplementation::Fused, CommStreams::InterIntra));
  check_numerics(on({}), stepped(algorithm, AllToAllImplementation::PointToPoint, CommStreams::One));
}
