// Whole layers and whole models: norms, embedding, output head and loss against the double reference.
#include <catch2/catch.hpp>

#include "models/base/names.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Experiment whole_model(int mp, int layers, Extent extent = Extent::Model) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = layers;
  Experiment e = small_experiment(s);
  e.workload.extent = extent;
  e.model.vocabulary = 23;  // two ranks have 12 words each, one of which no token is
  return e;
}

Plan chunked_plan(Scope scope, GradSync sync) {
  Plan plan;
  plan.scope = scope;
  plan.forward_degree = 2;
  plan.backward_degree = scope == Scope::Block ? 2 : 3;
  plan.comm_streams = CommStreams::InterIntra;
  plan.grad_sync = sync;
  return plan;
}

}  // namespace

TEST_CASE("A whole model computes what the reference does: loss, and gradients of embedding, head and norms") {
  const int mp = GENERATE(1, 2);
  const Extent extent = GENERATE(Extent::WholeLayers, Extent::Model);
  const GradSync sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks);
  const Experiment e = whole_model(mp, 2, extent);
  CAPTURE(mp, name_in(extent_names, extent), name_in(grad_sync_names, sync));
  check_numerics(e, Plan{});
  check_numerics(e, chunked_plan(Scope::Moe, sync));
  check_numerics(e, chunked_plan(Scope::Block, sync));
}

TEST_CASE("A whole model with dense layers and shared experts, in a pipeline of micro-batches") {
  Experiment e = whole_model(GENERATE(1, 2), 3);
  e.model.dense_hidden = 20;
  e.model.first_dense = 1;
  if (GENERATE(false, true)) e.model.shared_experts = {2, 6, false};
  e.workload.batch = 4;
  Plan plan = chunked_plan(Scope::Moe, GradSync::WithDense);
  plan.micro_batches = 4;
  check_numerics(e, plan);
  e.parallelism.pp = 2;  // each stage has the ranks that the whole had
  e.cluster.nodes *= 2;
  plan.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  check_numerics(e, plan);
}

TEST_CASE("Every gate routes the norm's result in a whole model") {
  Experiment e = whole_model(2, 1);
  e.workload.gate.kind =
      GENERATE(GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe, GateKind::ExpertChoice, GateKind::SoftMoe);
  Plan plan;
  if (GENERATE(false, true) || e.workload.gate.kind == GateKind::SoftMoe) plan.encoding = Encoding::Dense;
  check_numerics(e, plan);
}

TEST_CASE("A forward pass of a whole model gives the losses alone") {
  Experiment e = whole_model(2, 2);
  e.workload.phases = Phases::ForwardOnly;
  CHECK(numerics_of(e, Plan{}, exec::Element::Double).output_error <= 1e-12);
}
