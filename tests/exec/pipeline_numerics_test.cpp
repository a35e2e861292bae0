// SPDX-License-Identifier: Apache-2.0
// Pipelines whose stages share weights, run for real.
#include <catch2/catch.hpp>
#include <string>

#include "exec/run/compute_rules.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Plan two_pipelines(int micro_batches) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  plan.comm_streams = CommStreams::InterIntra;
  plan.pipeline_schedule = pipeline_schedule("dualpipe");
  plan.virtual_stages = 2;
  plan.micro_batches = micro_batches;
  return plan;
}

SmallExperiment on_stages(int pp) {
  SmallExperiment s;
  s.layers = 6;
  s.batch = 2 * pp;
  s.sequence = 4;
  s.pp = pp;
  return s;
}

}  // namespace

TEST_CASE("Two pipelines against each other compute what the reference does, on both stages of each layer") {
  SmallExperiment s = on_stages(2);
  s.dp = s.mp = s.ep = s.esp = GENERATE(1, 2);
  s.kind = ExpertKind::Gated;
  Plan plan = two_pipelines(4);
  plan.zero = GENERATE(0, 1);
  const Extent extent = GENERATE(Extent::Layers, Extent::WholeLayers, Extent::Model);
  const std::string layout = GENERATE("", "Etttt|ttL");
  Experiment e = small_experiment(s);
  e.parallelism.pipeline_layout = layout;
  e.workload.extent = extent;
  e.model.vocabulary = 23;
  e.model.tied_embeddings = extent == Extent::Model && GENERATE(false, true);
  CAPTURE(layout, s.mp, plan.zero, name_in(extent_names, extent));
  check_numerics(e, plan);
}

TEST_CASE("Two pipelines over four stages compute what the reference does, also with passes beside each other") {
  SmallExperiment s = on_stages(4);
  s.dp = s.ep = 2;
  Plan plan = two_pipelines(8);
  plan.zero = 1;
  if (GENERATE(false, true)) {
    plan.scope = Scope::Batch;
    plan.forward_degree = plan.backward_degree = 1;
  }
  Experiment e = small_experiment(s);
  e.parallelism.pipeline_layout = GENERATE("", "Et|ttt|t|tL");
  e.workload.extent = Extent::Model;
  e.model.vocabulary = 23;
  CAPTURE(e.parallelism.pipeline_layout, name_in(scope_names, plan.scope));
  check_numerics(e, plan);
}
