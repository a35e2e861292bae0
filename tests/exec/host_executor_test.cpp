// SPDX-License-Identifier: Apache-2.0
#include "exec/host/host_executor.hpp"

#include <catch2/catch.hpp>
#include <tuple>

#include "exec/run/compute_rules.hpp"
#include "exec/run/numerics.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/other_models.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

Plan moe_plan(int forward_degree, int backward_degree, CommStreams streams = CommStreams::One,
              GradSync sync = GradSync::After) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  plan.comm_streams = streams;
  plan.grad_sync = sync;
  return plan;
}

Plan block_plan(int degree, CommStreams streams = CommStreams::One, GradSync sync = GradSync::After) {
  Plan plan = moe_plan(degree, degree, streams, sync);
  plan.scope = Scope::Block;
  return plan;
}

SmallExperiment four_ranks() {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  return s;
}

}  // namespace

TEST_CASE("The sequential plan computes what the reference does") {
  SmallExperiment s = four_ranks();
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  s.layers = GENERATE(1, 2, 3);
  check_numerics(small_experiment(s), Plan{});
}

TEST_CASE("Models without experts compute what the reference does") {
  SmallExperiment s = four_ranks();
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  s.layers = 4;
  s.batch = 2;
  s.pp = GENERATE(1, 2);
  Experiment e = without_experts(small_experiment(s));
  e.model.vocabulary = 32;
  e.workload.extent = GENERATE(Extent::Layers, Extent::Model);
  Plan plan;
  plan.micro_batches = s.pp;
  plan.grad_sync = GradSync::WithDense;
  check_numerics(e, plan);
}

TEST_CASE("Deep models without norms stay within the digits of floats") {
  SmallExperiment s = four_ranks();
  s.kind = ExpertKind::Gated;  // squares its input
  s.layers = 32;
  check_numerics(small_experiment(s), Plan{});
}

TEST_CASE("Chunked plans compute what the reference does, with any degrees") {
  SmallExperiment s = four_ranks();
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  s.layers = 2;
  const auto [forward, backward] = GENERATE(std::pair{2, 2}, std::pair{3, 2}, std::pair{1, 4}, std::pair{4, 3});
  const CommStreams streams = GENERATE(CommStreams::One, CommStreams::InterIntra);
  const Experiment e = small_experiment(s);
  REQUIRE(layer_volumes(e).capacity == 5);  // no degree but 1 and 5 divides it
  check_numerics(e, moe_plan(forward, backward, streams, GradSync::WithDense));
}

TEST_CASE("Layers may have backward degrees of their own") {
  SmallExperiment s = four_ranks();
  s.layers = 3;
  Plan plan = moe_plan(2, 1, CommStreams::InterIntra);
  plan.backward_degrees = {4, 1, 3};
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Gradients reduced in slices are the same") {
  SmallExperiment s = four_ranks();
  s.layers = 3;
  const Experiment e = small_experiment(s);
  const std::int64_t layer = layer_volumes(e).dense_parameters;
  Plan plan = moe_plan(2, 3, GENERATE(CommStreams::One, CommStreams::InterIntra), GradSync::Partitioned);
  plan.gradient_slices = {{Window::Moe, 1, 7},
                          {Window::Dense, 1, layer - 7},
                          {Window::Moe, 0, layer / 2},
                          {Window::Dense, 0, layer / 3},
                          {Window::Tail, 0, 0}};
  plan.gradient_slices.back().elements = 3 * layer - layer - layer / 2 - layer / 3;
  check_numerics(e, plan);
}

TEST_CASE("Any grouping of the ranks computes the same") {
  SmallExperiment s;
  s.layers = 2;
  s.batch = 2;
  std::tie(s.dp, s.mp, s.edp, s.ep, s.esp) = GENERATE(table<int, int, int, int, int>({{1, 1, 1, 1, 1},
                                                                                      {2, 1, 1, 2, 1},
                                                                                      {1, 2, 1, 1, 2},
                                                                                      {2, 1, 2, 1, 1},
                                                                                      {1, 4, 1, 4, 1},
                                                                                      {4, 1, 1, 1, 4},
                                                                                      {4, 1, 2, 2, 1},
                                                                                      {2, 4, 1, 2, 4},
                                                                                      {4, 2, 2, 2, 2},
                                                                                      {8, 1, 1, 4, 2},
                                                                                      {3, 2, 3, 1, 2}}));
  s.kind = ExpertKind::Gated;
  Plan plan = moe_plan(2, 3, CommStreams::InterIntra, GradSync::WithDense);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Micro-batches and pipeline stages compute what the reference does") {
  SmallExperiment s;
  s.layers = 3;
  s.batch = 4;
  s.sequence = 4;
  s.pp = GENERATE(1, 2, 3);
  Plan plan = moe_plan(2, 1);
  plan.micro_batches = GENERATE(1, 2, 4);
  plan.pipeline_schedule = GENERATE(pipeline_schedule("gpipe"), pipeline_schedule("1f1b"), pipeline_schedule("zb_h1"));
  if (s.pp == 1 && plan.pipeline().halves) return;  // they need a pipeline
  SECTION("data parallel, experts replicated, gradients in chunks") {
    s.dp = 4;
    s.ep = s.edp = 2;
    plan.grad_sync = GradSync::FixedChunks;
    plan.gradient_chunk_bytes = 4 * 150;  // a layer has 512 dense gradients
  }
  SECTION("all groups, gradients beside attention") {
    s.dp = s.mp = s.ep = s.esp = 2;
    s.kind = ExpertKind::Gated;
    plan.comm_streams = CommStreams::InterIntra;
    plan.backward_degree = 2;
    plan.grad_sync = GradSync::WithDense;
  }
  SECTION("one rank a stage") {
    plan.forward_degree = 1;
  }
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Virtual stages and uneven layouts compute what the reference does") {
  SmallExperiment s;
  s.layers = 7;
  s.batch = s.sequence = 4;
  s.pp = 2;
  s.dp = s.mp = s.ep = s.esp = GENERATE(1, 2);
  Plan plan = moe_plan(2, 1, CommStreams::InterIntra);
  plan.pipeline_schedule = pipeline_schedule("interleaved");
  plan.virtual_stages = 3;
  plan.micro_batches = GENERATE(2, 4);
  plan.grad_sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 150;
  const Extent extent = GENERATE(Extent::Layers, Extent::Model);
  // Equal runs; stages without layers at both ends and in between; and layer 0 on stage 1, the last layer on stage 0.
  const std::string layout = GENERATE("", "Et|tt||t|ttt|L", "E|tt|t|t|ttt|L");
  CAPTURE(layout, plan.micro_batches, name_in(extent_names, extent), name_in(grad_sync_names, plan.grad_sync));
  Experiment e = small_experiment(s);
  e.parallelism.pipeline_layout = layout;
  e.workload.extent = extent;
  e.model.vocabulary = 23;
  check_numerics(e, plan);
}

TEST_CASE("Stages that lie down and back up, with gradients of weights apart, compute what the reference does") {
  SmallExperiment s;
  s.layers = 6;
  s.batch = s.sequence = 4;
  s.pp = 2;
  s.dp = s.mp = s.ep = s.esp = GENERATE(1, 2);
  s.kind = ExpertKind::Gated;
  Plan plan = moe_plan(2, 2, CommStreams::InterIntra);
  plan.scope = GENERATE(Scope::Moe, Scope::Block);
  plan.pipeline_schedule = GENERATE(pipeline_schedule("zb_v"), pipeline_schedule("dualpipe_v"));
  plan.virtual_stages = 2;
  plan.micro_batches = 4;
  plan.grad_sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks);
  plan.gradient_chunk_bytes = 4 * 150;
  const Extent extent = GENERATE(Extent::Layers, Extent::Model);
  const std::string layout = GENERATE("", "Et|tt||tttL");  // rank 0 has both ends, and rank 1 a stage without layers
  Experiment e = small_experiment(s);
  e.parallelism.pipeline_layout = layout;
  e.workload.extent = extent;
  e.model.vocabulary = 23;
  e.model.tied_embeddings = GENERATE(false, true);
  CAPTURE(layout, s.mp, name_in(scope_names, plan.scope));
  check_numerics(e, plan);
}

TEST_CASE("One stage on each rank with an uneven layout") {
  SmallExperiment s = four_ranks();
  s.layers = 5;
  s.batch = s.pp = 2;
  Plan plan = moe_plan(1, 2);
  plan.micro_batches = 2;
  plan.pipeline_schedule = GENERATE(pipeline_schedule("gpipe"), pipeline_schedule("1f1b"));
  plan.grad_sync = GradSync::WithDense;
  Experiment e = small_experiment(s);
  e.parallelism.pipeline_layout = "Et|ttttL";
  check_numerics(e, plan);
}

TEST_CASE("Micro-batches that drop tokens drop those of the reference") {
  SmallExperiment s = four_ranks();
  s.layers = s.pp = 2;
  s.batch = 2;
  s.capacity_factor = .5;
  Plan plan = moe_plan(1, 1);
  plan.micro_batches = 2;
  check_numerics(small_experiment(s), plan, true);
}

TEST_CASE("Replicated experts' gradients are the same however they are reduced") {
  SmallExperiment s;
  s.layers = 3;
  s.dp = 4;
  s.edp = 2;
  s.ep = 2;
  const Experiment e = small_experiment(s);
  Plan plan = moe_plan(2, 2, GENERATE(CommStreams::One, CommStreams::InterIntra));
  plan.grad_sync = GENERATE(GradSync::After, GradSync::WithDense, GradSync::FixedChunks, GradSync::Partitioned);
  if (plan.grad_sync == GradSync::Partitioned)
    plan.gradient_slices = {{Window::Moe, 0, 700}, {Window::Tail, 0, 3 * 512 - 700}};
  check_numerics(e, plan);
}

TEST_CASE("Grouped-query attention, tokens dropped, experts without tokens") {
  SmallExperiment s = four_ranks();
  SECTION("fewer key heads than query heads") {
    s.heads = 4;
    s.kv_heads = 2;
    check_numerics(small_experiment(s), moe_plan(2, 2));
  }
  SECTION("heads that do not divide over the ranks") {
    s.mp = s.esp = 3;
    s.dp = s.ep = 1;
    s.sequence = s.expert_hidden = 12;
    s.heads = 8;
    s.kv_heads = 4;
    check_numerics(small_experiment(s), moe_plan(2, 2));
  }
  SECTION("a capacity that drops tokens") {
    s.capacity_factor = .5;
    check_numerics(small_experiment(s), moe_plan(2, 1), true);
  }
  SECTION("more experts than choices") {
    s.experts = 24;
    s.top_k = 1;
    s.sequence = 8;
    s.capacity_factor = 24;
    check_numerics(small_experiment(s), moe_plan(4, 3));
  }
  SECTION("all experts chosen") {
    s.top_k = 4;
    check_numerics(small_experiment(s), moe_plan(3, 3));
  }
}

TEST_CASE("Any order of chunks and any streams compute the same") {
  SmallExperiment s = four_ranks();
  s.layers = 2;
  const auto [forward, backward] = GENERATE(std::pair{3, 2}, std::pair{4, 4});
  Plan plan =
      moe_plan(forward, backward, GENERATE(CommStreams::One, CommStreams::InterIntra, CommStreams::DispatchCombine),
               GradSync::WithDense);
  plan.order = GENERATE(Order::DispatchFirst, Order::Alternate, Order::ReadyFirst);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("What was dropped comes back the same, whatever the buffers") {
  SmallExperiment s = four_ranks();
  s.layers = 2;
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  const int degree = GENERATE(2, 3, 4);
  Plan plan = moe_plan(degree, degree, CommStreams::DispatchCombine);
  plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  plan.buffers = GENERATE(Buffers::PerChunk, Buffers::Single, Buffers::Double);
  plan.order = GENERATE(Order::Alternate, Order::ReadyFirst);
  const Experiment e = small_experiment(s);
  REQUIRE(layer_volumes(e).capacity == 5);  // chunks of different sizes share buffers
  check_numerics(e, plan);
}

TEST_CASE("Restoring on any streams, in any order, with any degrees") {
  struct Case {
    int forward, backward;
    Order order;
    Buffers buffers = Buffers::PerChunk;
  };
  SmallExperiment s = four_ranks();
  s.capacity_factor = 1.5;  // 6 rows
  const Case c = GENERATE(values<Case>({
      // Chunks that share rows in any way.
      {2, 3, Order::DispatchFirst},
      {3, 2, Order::Alternate},
      {1, 4, Order::DispatchFirst},
      {4, 1, Order::Alternate},
      // A forward chunk is brought back once for several backward chunks.
      {3, 6, Order::Alternate, Buffers::Single},
      {3, 6, Order::ReadyFirst, Buffers::Double},
      {1, 4, Order::Alternate, Buffers::Double},
      // As many buffers as chunks.
      {2, 2, Order::DispatchFirst, Buffers::Double},
  }));
  Plan plan = moe_plan(c.forward, c.backward, GENERATE(CommStreams::One, CommStreams::InterIntra));
  plan.order = c.order;
  plan.buffers = c.buffers;
  plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  const Experiment e = small_experiment(s);
  REQUIRE(layer_volumes(e).capacity == 6);
  check_numerics(e, plan);
}

TEST_CASE("Restoring where groups have one rank") {
  SmallExperiment s;
  s.layers = 2;
  std::tie(s.dp, s.mp, s.edp, s.ep, s.esp) =
      GENERATE(table<int, int, int, int, int>({{1, 1, 1, 1, 1}, {2, 1, 1, 2, 1}, {1, 2, 1, 1, 2}, {2, 1, 2, 1, 1}}));
  Plan plan = moe_plan(3, 3);
  plan.order = Order::Alternate;
  plan.restore = GENERATE(Restore::S1, Restore::S2, Restore::S3, Restore::S4);
  plan.buffers = GENERATE(Buffers::PerChunk, Buffers::Single, Buffers::Double);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("A forward pass alone needs nothing of its rows and may reuse all buffers") {
  SmallExperiment s = four_ranks();
  s.phases = Phases::ForwardOnly;
  Plan plan = moe_plan(4, 1, CommStreams::DispatchCombine);
  plan.order = Order::Alternate;
  plan.buffers = GENERATE(Buffers::Single, Buffers::Double);
  plan.restore = GENERATE(Restore::Keep, Restore::S1);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("A forward pass alone computes the same output") {
  SmallExperiment s = four_ranks();
  s.phases = Phases::ForwardOnly;
  check_numerics(small_experiment(s), moe_plan(2, 2));
}

TEST_CASE("Steps repeat: the second computes what the first did") {
  const Experiment e = small_experiment(four_ranks());
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, moe_plan(2, 2)));
  const ModelData data = random_model_data(e, 11);
  const Reference reference = compute_reference(e, data);
  const auto transport = make_inproc_transport(e.parallelism, 4, static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  for (int step = 0; step < 3; ++step) {
    executor->run_step(step == 0 ? Poison::Yes : Poison::No);
    CHECK(compare(e, *schedule, *executor, reference).ok(1e-12));
  }
}

TEST_CASE("A wrong gradient is noticed") {
  const Experiment e = small_experiment(four_ranks());
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
  const ModelData data = random_model_data(e, 11);
  Reference reference = compute_reference(e, data);
  const auto transport = make_inproc_transport(e.parallelism, 4, static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  executor->run_step(Poison::No);
  reference.gradients[0].w1[3] += 1e-9;
  CHECK_FALSE(compare(e, *schedule, *executor, reference).ok(1e-12));
}

TEST_CASE("Dense layers and shared experts compute what the reference does, alone and among MoE layers") {
  SmallExperiment s = four_ranks();
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  s.layers = 3;
  s.mp = s.esp = GENERATE(1, 2);
  s.dp = s.ep = 4 / s.mp;
  const bool shares = GENERATE(false, true);
  const GradSync sync = GENERATE(GradSync::After, GradSync::WithDense);
  Experiment e = small_experiment(s);
  e.model.dense_hidden = 20;
  std::tie(e.model.first_dense, e.model.moe_every) =
      GENERATE(std::tuple{1, 1}, std::tuple{2, 1}, std::tuple{1, 2});  // D M M, D D M, D M D
  if (shares) e.model.shared_experts = {2, 6, false};
  CAPTURE(s.mp, shares, e.model.first_dense, e.model.moe_every);
  check_numerics(e, moe_plan(2, 3, CommStreams::InterIntra, sync));
}

TEST_CASE("Every layer of a mixed model is updated by its own gradient") {
  SmallExperiment s = four_ranks();
  s.layers = 3;
  Experiment e = small_experiment(s);
  e.model.first_dense = 1;
  e.model.dense_hidden = 20;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
  const ModelData data = random_model_data(e, 11);
  const auto transport = make_inproc_transport(e.parallelism, 4, static_cast<int>(schedule->streams.size()));
  const auto executor = make_host_executor(e, schedule, Element::Double, data, {}, *transport);
  executor->run_step(Poison::No);
  const auto find = [&](TensorKind kind, int layer) {
    for (const TensorId i : schedule->tensors.ids())
      if (schedule->tensors[i].kind == kind && schedule->tensors[i].layer == layer) return i;
    return TensorId{-1};
  };
  const Values gradients = executor->values(0, find(TensorKind::DenseGradients, 0));
  std::size_t at = 0;
  for (int layer = 2; layer >= 0; --layer) {
    const Values before = dense_shard(e, data.layers[static_cast<std::size_t>(layer)], 0);
    const Values after = executor->values(0, find(TensorKind::DenseWeights, layer));
    for (std::size_t i = 0; i < before.size(); ++i, ++at)  // Adam's first step is rate x sign
      REQUIRE(after[i] - before[i] == Approx(gradients[at] > 0 ? -1e-3 : gradients[at] < 0 ? 1e-3 : 0).margin(1e-6));
  }
  CHECK(at == gradients.size());
}

TEST_CASE("Eager attention, attention without a mask and products in fp8 are refused, not run as others") {
  const Experiment e = small_experiment(four_ranks());
  CHECK_NOTHROW(layer_shape(e));
  const auto refused = [&](const char* pointer, auto set) {
    Experiment other = e;
    set(other.workload);
    CHECK_THROWS_WITH(layer_shape(other), Catch::Contains(pointer) && Catch::Contains("simulated, not executed yet"));
  };
  refused("/workload/attention", [](Workload& w) { w.attention = AttentionKernel::Eager; });
  refused("/workload/causal", [](Workload& w) { w.causal = false; });
  refused("/workload/products", [](Workload& w) { w.products = DType::Fp8; });
}

TEST_CASE("Attention in chunks computes what the reference does, with capacity by chunk") {
  SmallExperiment s;
  s.layers = 2;
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  SECTION("each rank attends alone") {
    s.dp = s.ep = 4;
    s.batch = GENERATE(1, 2);
    s.sequence = 15;  // 3 chunks of 5 positions, 4 of 3 or 4
    check_numerics(small_experiment(s), block_plan(GENERATE(1, 3, 4)));
  }
  SECTION("ranks share attention and experts") {
    s.dp = s.mp = s.ep = s.esp = 2;
    s.batch = GENERATE(1, 3);
    check_numerics(small_experiment(s), block_plan(GENERATE(2, 4), CommStreams::InterIntra, GradSync::WithDense));
  }
  SECTION("grouped-query attention and tokens dropped") {
    s.dp = s.ep = s.mp = s.esp = 2;
    s.kv_heads = 2;
    s.capacity_factor = .5;
    check_numerics(small_experiment(s), block_plan(2), true);
  }
}

TEST_CASE("Chunks of tokens drop others than the whole sequence does") {
  SmallExperiment s;
  s.dp = s.ep = 2;
  s.sequence = 64;
  s.capacity_factor = 1;
  const Experiment e = small_experiment(s);
  const ModelData data = random_model_data(e, 3);
  const Reference whole = compute_reference(e, data), chunked = compute_reference(e, data, {.token_chunks = 4});
  CHECK(whole.dropped > 0);
  CHECK(chunked.dropped > whole.dropped);  // rows that one chunk leaves empty do not help another
  CHECK(whole.dropped == compute_reference(e, data, {.token_chunks = 1}).dropped);
}

TEST_CASE("The host waits between phases: the same numbers") {
  SmallExperiment s = four_ranks();
  s.layers = 2;
  Plan plan = GENERATE(Plan{}, moe_plan(2, 3, CommStreams::InterIntra), block_plan(2));
  plan.host_sync = true;
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Messages in another format: rounded as in the reference, and not without an error") {
  SmallExperiment s = four_ranks();
  s.esp = GENERATE(1, 2);
  s.edp = 2 / s.esp;
  s.kind = ExpertKind::Gated;
  Plan plan = GENERATE(moe_plan(2, 3), moe_plan(3, 3, CommStreams::InterIntra), block_plan(2));
  std::tie(plan.dispatch_wire, plan.combine_wire) =
      GENERATE(table<Wire, Wire>({{Wire::Bf16, Wire::Bf16}, {Wire::Fp8, Wire::Bf16}, {Wire::Same, Wire::Fp8}}));
  const Experiment e = small_experiment(s);
  check_numerics(e, plan);
  // A number is off by up to half a spacing: bf16 2^-9 to 2^-8, fp8 2^-5 to 2^-4; the outputs, of which the experts are
  // a part, by less.
  const double rounding = numerics_of(e, plan, Element::Double).rounding_error;
  const bool fp8 = plan.dispatch_wire == Wire::Fp8 || plan.combine_wire == Wire::Fp8;
  CHECK(rounding > (fp8 ? 0x1p-11 : 0x1p-15));
  CHECK(rounding < (fp8 ? 0x1p-4 : 0x1p-8));
}
