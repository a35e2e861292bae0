// SPDX-License-Identifier: Apache-2.0
#include "models/plan/plan.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/program_text.hpp"
#include "models/question/stage_layout.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

TEST_CASE("what cannot be built is refused with the knob and the reason") {
  struct Case {
    std::function<void(Plan&)> change;
    std::string message;
  };
  const std::vector<Case> cases{
      {[](Plan& p) { p.scope = Scope::Batch; }, "/plan/scope: batch needs a plan.pipeline_schedule in which"},
      {[](Plan& p) { p.scope = Scope::Block, p.forward_degree = 2; },
       "/plan/backward_degree: 1 contradicts plan.scope block"},
      {[](Plan& p) { p.scope = Scope::Block, p.split = Split::Peers; }, "/plan/split: peers"},
      {[](Plan& p) { p.scope = Scope::Block, p.forward_degree = p.backward_degree = 20; },
       "/plan/forward_degree: chunk 1 of 20 has 13 tokens, which do not divide over mp 4 ranks"},
      {[](Plan& p) { p.buffers = Buffers::Double; },
       "/plan/buffers: double overwrites rows that the backward pass needs, but plan.restore is keep"},
      {[](Plan& p) {
         p.scope = Scope::Moe, p.restore = Restore::S1, p.buffers = Buffers::Double, p.backward_degree = 3;
       },
       "/plan/buffers: double holds 2 of 3 chunks, but plan.order dispatch_first sends all of them"},
      {[](Plan& p) {
         p.scope = Scope::Moe, p.forward_degree = 4, p.backward_degree = 2;
         p.order = Order::Alternate, p.restore = Restore::S1, p.buffers = Buffers::Single;
       },
       "single brings back the hidden rows of one forward chunk at a time, but backward chunk 0 of 2 shares rows with "
       "2 "
       "of the 4"},
      {[](Plan& p) { p.micro_batches = 4; }, "/plan/micro_batches: 4 do not divide the batch of 1 samples"},
      {[](Plan& p) { p.micro_batches = 0; }, "/plan/micro_batches: 0, expected 1 to 32767"},
      {[](Plan& p) { p.pipeline_schedule = pipeline_schedule("interleaved"); },
       "/plan/pipeline_schedule: interleaved needs several stages on each rank; expected plan.virtual_stages of 2 or "
       "more"},
      {[](Plan& p) { p.virtual_stages = 2; },
       "/plan/virtual_stages: 2 contradicts plan.pipeline_schedule gpipe, where each rank has one stage; expected 1, "
       "or "
       "pipeline_schedule interleaved"},
      {[](Plan& p) { p.pipeline_schedule = pipeline_schedule("interleaved"), p.virtual_stages = 2; },
       "/plan/pipeline_schedule: interleaved needs a pipeline; expected parallelism.pp of 2 or more"},
      {[](Plan& p) { p.gradient_chunk_bytes = 3; }, "/plan/gradient_chunk_bytes: 3, expected at least one element"},
      {[](Plan& p) { p.scope = Scope::Moe, p.split = Split::Peers, p.dispatch_wire = Wire::Fp8; },
       "/plan/dispatch_wire: not built yet together with plan.split peers; expected same"},
      {[](Plan& p) { p.scope = Scope::Moe, p.split = Split::Peers, p.restore = Restore::S4; },
       "/plan/restore: not built yet together with plan.split peers; expected keep"},
      {[](Plan& p) { p.expert_sharding = ExpertSharding::EpMp, p.encoding = Encoding::Dense; },
       "/plan/encoding: not built yet together with rows repeated by plan.expert_sharding ep_mp; expected sparse"},
      {[](Plan& p) { p.scores_at = ScoresAt::Experts, p.encoding = Encoding::Dense; },
       "/plan/scores_at: experts contradicts plan.encoding dense, whose decoding is a product with the scores; "
       "expected "
       "decode"},
      {[](Plan& p) { p.scores_at = ScoresAt::Experts, p.combine_wire = Wire::Fp8; },
       "/plan/scores_at: experts is not built yet with plan.combine_wire fp8; built: decode"},
      {[](Plan& p) { p.all_to_all = AllToAll::NodeDeduplicated; },
       "/plan/all_to_all: node_deduplicated needs workload.message_sizes routed"},
      {[](Plan& p) { p.all_to_all_levels = {8}; }, "/plan/all_to_all_levels: given, but plan.all_to_all is linear"},
      {[](Plan& p) {
         p.all_to_all = AllToAll::TwoDimensional, p.all_to_all_levels = {2, 3};
       },
       "/plan/all_to_all_levels: 2 x 3 multiply up to something other than the 8 ranks that share experts"},
      {[](Plan& p) { p.all_to_all_implementation = AllToAllImplementation::Fused; },
       "/plan/all_to_all_implementation: fused contradicts plan.all_to_all linear, which has one step; expected p2p"},
      {[](Plan& p) { p.forward_degree = 0; }, "/plan/forward_degree: 0, expected at least 1"},
      {[](Plan& p) { p.forward_degree = 2; }, "/plan/forward_degree: 2 contradicts plan.scope layer"},
      {[](Plan& p) { p.backward_degree = 21, p.scope = Scope::Moe; },
       "/plan/backward_degree: 21 chunks, but an expert takes only 20 rows"},
      {[](Plan& p) { p.backward_degrees = {1}; }, "/plan/backward_degrees: 1 degrees for 2 layers"},
      {[](Plan& p) {
         p.gradient_slices = {{Window::Tail, 0, 1}};
       },
       "given, but plan.grad_sync is not partitioned"},
      {[](Plan& p) { p.grad_sync = GradSync::Partitioned; }, "slices add up to 0 elements, expected all 20971520"},
      {[](Plan& p) {
         p.grad_sync = GradSync::Partitioned;
         p.gradient_slices = {{Window::Moe, 1, 1}};
       },
       "the slice beside layer 1 ends at element 1, but only 0 gradients exist by then"},
      {[](Plan& p) {
         p.grad_sync = GradSync::Partitioned;
         p.gradient_slices = {{Window::Dense, 0, 1}, {Window::Moe, 0, 1}};
       },
       "windows are not in backward order"},
  };
  const Experiment e = test::testbed_b(2);
  for (const Case& c : cases) {
    Plan plan;
    c.change(plan);
    CHECK_THROWS_WITH(validate(plan, e), Contains(c.message));
  }
  CHECK_NOTHROW(validate(Plan{}, e));
}

TEST_CASE("levels of an all-to-all fit the nodes that its ranks lie on") {
  Experiment e = test::testbed_b();
  e.parallelism = {.dp = 32, .mp = 1, .ep = 8, .esp = 1, .pp = 1, .edp = 4};  // 4 ranks on each of 2 nodes
  Plan p;
  p.all_to_all = AllToAll::TwoDimensional;
  CHECK_NOTHROW(validate(p, e));
  for (const std::vector<int>& fits : {std::vector{8}, {4, 2}, {2, 4}, {2, 2, 2}, {1, 4, 1, 2}}) {
    p.all_to_all_levels = fits;
    CHECK_NOTHROW(validate(p, e));
  }
  e.cluster.nodes = 6;
  e.cluster.gpus_per_node = 6;
  e.model.experts = 12;
  e.parallelism = {.dp = 36, .mp = 1, .ep = 12, .esp = 1, .pp = 1, .edp = 3};  // 6 on each of 2
  p.all_to_all_levels = {4, 3};
  CHECK_THROWS_WITH(validate(p, e), Contains("/plan/all_to_all_levels: 4 x 3 cut a node's 6 ranks into unequal parts"));
  p.all_to_all_levels = {};
  e.model.experts = 4;
  e.parallelism.ep = 4;
  e.parallelism.edp = 9;
  CHECK_THROWS_WITH(validate(p, e), Contains("/plan/all_to_all: expected linear: nodes have different numbers"));
}

TEST_CASE("grad_sync after, with_dense and fixed_chunks as slices, last layer first") {
  Plan p;
  const std::vector<std::int64_t> elements{30, 20, 10};
  CHECK(gradient_slices(p, elements, Bytes(4), StageLayout(3)) ==
        std::vector<GradientSlice>{{Window::Tail, 0, 10}, {Window::Tail, 0, 20}, {Window::Tail, 0, 30}});
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, elements, Bytes(4), StageLayout(3)) ==
        std::vector<GradientSlice>{{Window::Dense, 1, 10}, {Window::Dense, 0, 20}, {Window::Tail, 0, 30}});
  // Chunks of 12: after layer 1 there are 30 gradients, after layer 0 another 30 beside the 6 that are left.
  p.grad_sync = GradSync::FixedChunks;
  p.gradient_chunk_bytes = 48;
  CHECK(gradient_slices(p, elements, Bytes(4), StageLayout(3)) == std::vector<GradientSlice>{{Window::Moe, 0, 12},
                                                                                             {Window::Moe, 0, 12},
                                                                                             {Window::Tail, 0, 12},
                                                                                             {Window::Tail, 0, 12},
                                                                                             {Window::Tail, 0, 12}});
  // Two stages: layers 0 and 1, and layer 2.
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, elements, Bytes(4), StageLayout(3, {.pp = 2})) ==
        std::vector<GradientSlice>{{Window::Tail, 2, 10}, {Window::Dense, 0, 20}, {Window::Tail, 0, 30}});
}

TEST_CASE("interleaved stages: micro-batches divide over the stages, and stages are no more than layers") {
  Experiment e = test::testbed_b(5);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  e.workload.batch = 12;
  Plan p;
  p.pipeline_schedule = pipeline_schedule("interleaved");
  p.virtual_stages = 2;
  p.micro_batches = 3;
  CHECK_THROWS_WITH(validate(p, e), Contains("/plan/micro_batches: 3 do not divide over the 2 pipeline stages, which "
                                             "plan.pipeline_schedule interleaved needs; expected a multiple of 2"));
  p.micro_batches = 4;
  CHECK_NOTHROW(validate(p, e));
  p.virtual_stages = 3;
  CHECK_THROWS_WITH(validate(p, e),
                    Contains("/plan/virtual_stages: 3 on each of 2 pipeline stages are more than the 5 layers"));
  e.parallelism.pipeline_layout = "Et|t|t|t|t|L";
  CHECK_NOTHROW(validate(p, e));
  p.virtual_stages = 2;
  CHECK_THROWS_WITH(validate(p, e), Contains("/plan/virtual_stages: 2 on each of 2 pipeline stages are 4 stages, but "
                                             "parallelism.pipeline_layout has 6; expected 3"));
}

TEST_CASE("slices of interleaved stages follow the backward pass through the layers of each") {
  // Virtual stages 0 to 3 have layers 0; 1; 2 and 3: stage 0 has layers 0 and 2, stage 1 layers 1 and 3.
  const StageLayout layout(4, {.pp = 2}, 2);
  const std::vector<std::int64_t> elements{40, 30, 20, 10};
  Plan p;
  p.grad_sync = GradSync::WithDense;
  CHECK(gradient_slices(p, elements, Bytes(4), layout) ==
        std::vector<GradientSlice>{
            {Window::Dense, 1, 10}, {Window::Tail, 1, 30}, {Window::Dense, 0, 20}, {Window::Tail, 0, 40}});
  Experiment e = test::testbed_b(4);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  e.workload.batch = 2;
  const std::int64_t n = layer_volumes(e).dense_parameters;
  p.grad_sync = GradSync::Partitioned;
  p.pipeline_schedule = pipeline_schedule("interleaved");
  p.virtual_stages = p.micro_batches = 2;
  p.gradient_slices = {{Window::Moe, 1, n}, {Window::Tail, 1, n}, {Window::Dense, 0, n}, {Window::Tail, 0, n}};
  CHECK_NOTHROW(validate(p, e));
  p.gradient_slices = {{Window::Moe, 2, n}, {Window::Tail, 1, n}, {Window::Dense, 0, n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("windows are not in backward order"));
  p.gradient_slices = {{Window::Tail, 1, 2 * n}, {Window::Moe, 2, n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("beside layer 2 ends at element") && Contains("only 0 gradients"));
}

TEST_CASE("slices of each stage carry the gradients of that stage") {
  Experiment e = test::testbed_b(3);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  const std::int64_t n = layer_volumes(e).dense_parameters;
  Plan p;
  p.grad_sync = GradSync::Partitioned;
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Moe, 0, n}, {Window::Tail, 0, n}};
  CHECK_NOTHROW(validate(p, e));
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Moe, 1, n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("beside layer 1 ends at element") && Contains("only 0 gradients"));
  p.gradient_slices = {{Window::Tail, 2, 2 * n}, {Window::Tail, 0, n}};
  CHECK_THROWS_WITH(validate(p, e), Contains(fmt::format("slices exceed the {} dense gradients", n)));
  p.gradient_slices = {{Window::Tail, 2, n}, {Window::Tail, 1, 2 * n}};
  CHECK_THROWS_WITH(validate(p, e), Contains("a slice of the tail at layer 1, expected 0"));
}

// Stage 1 reduces its gradients beside the pass of micro-batch 0, its last one.
TEST_CASE("a listed program reduces gradients beside its last passes if no gradients of weights come after these") {
  Experiment e = test::testbed_b(4);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  e.workload.batch = 2;
  const auto listed = [](std::string_view second) {
    return ListedProgram({read_slots("0F1 0F0 0I1 0W1 0B0"), read_slots(second)});
  };
  Plan p;
  p.pipeline_schedule = pipeline_schedule("listed");
  p.micro_batches = 2;
  p.program = listed("1F1 1F0 1I1 1W1 1B0");
  p.grad_sync = GradSync::WithDense;
  CHECK_NOTHROW(validate(p, e));
  p.program = listed("1F1 1F0 1I1 1B0 1W1");
  CHECK_THROWS_WITH(validate(p, e), Contains("/plan/grad_sync: with_dense needs a program that makes the gradients of "
                                             "weights of the last backward pass through each stage last"));
  p.grad_sync = GradSync::After;
  CHECK_NOTHROW(validate(p, e));
}
