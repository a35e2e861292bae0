// SPDX-License-Identifier: Apache-2.0
// The kernels of ops do the work that parameters and tokens ask for.
#include "models/schedule/op_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

double shapes_flops(const Schedule& s, const KernelWork& work) {
  double sum = 0;
  for (const KernelUse& kernel : s.kernels_of(work)) sum += kernel.times * flops(kernel.shape).value();
  return sum;
}

int launches(const Schedule& s, const KernelWork& work) {
  int sum = 0;
  for (const KernelUse& kernel : s.kernels_of(work)) sum += kernel.launches;
  return sum;
}

}  // namespace

TEST_CASE("the flops of random steps are those of their kernels' shapes") {
  test::Random random(17);
  for (int tried = 0; tried < 200; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan = test::random_legal_plan(random, e);
    const Schedule s = build_schedule(e, plan);
    INFO(test::describe(e, plan));
    for (const Op& op : s.ops)
      if (const KernelWork* work = op.kernel()) {
        CHECK(shapes_flops(s, *work) == Approx(work->flops.value()));
        CHECK(launches(s, *work) == work->gemms);
        CHECK(work->row_share == 1);
      }
  }
}

TEST_CASE("attention, dense layers and experts do two operations for each parameter and row, twice that backward") {
  test::Random random(18);
  for (int tried = 0; tried < 100; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan;
    const LayerVolumes v = layer_volumes(e, plan, e.model.first_moe());
    ScheduleWriter writer(0);
    const OpWork work(v, e, plan, writer);
    const double tokens = 2.0 * static_cast<double>(v.sequence_tokens);
    const double down = 2.0 * static_cast<double>(v.tokens * v.low_rank_parameters());
    const double projections = tokens * static_cast<double>(v.attention_parameters - v.low_rank_parameters());
    const double scores = v.attention_score_flops.value();
    CHECK(work.attention(Phase::Forward).flops.value() == Approx(projections + scores));
    const double backward = e.workload.attention == AttentionKernel::Flash ? 2.5 : 2;
    CHECK(work.attention(Phase::Backward).flops.value() == Approx(2 * projections + backward * scores));
    for (const Phase phase : {Phase::Forward, Phase::Backward})
      if (down > 0)
        CHECK(work.down_projection(phase).flops.value() == Approx(phase == Phase::Forward ? down : 2 * down));
    CHECK(work.dense_ffn(Phase::Forward).flops.value() == Approx(tokens * static_cast<double>(v.ffn_parameters)));
    const ChunkRange all = RowRange{0, v.capacity};
    const auto experts = [&](Phase phase) { return std::get<KernelWork>(work.expert(phase, all)).flops.value(); };
    CHECK(experts(Phase::Forward) == Approx(v.expert_flops(v.expert_rows(all)).value()));
    CHECK(experts(Phase::Backward) == Approx(2 * experts(Phase::Forward)));
  }
}

TEST_CASE("chunks of attention add up to the whole") {
  test::Random random(19);
  for (int tried = 0; tried < 50; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan;
    const LayerVolumes v = layer_volumes(e, plan, e.model.first_moe());
    ScheduleWriter writer(0);
    double chunks = 0;
    for (int i = 0; i < 4; ++i) {
      const TokenPart part = token_part(v, 4, i);
      chunks += OpWork(part.volumes, e, plan, writer).attention_chunk(Phase::Forward).flops.value();
    }
    CHECK(chunks == Approx(OpWork(v, e, plan, writer).attention_chunk(Phase::Forward).flops.value()));
  }
}

namespace {

// 2 samples of 8 tokens, 4 heads of 4 elements, hidden size 8; experts of 2 matrices. In fp32.
Experiment small_attention() {
  Experiment e = test::round_numbers(1);
  e.parallelism = {};
  e.cluster.nodes = e.cluster.gpus_per_node = 1;
  e.model.attention = {4, 4, 4};
  e.model.hidden = 8;
  e.workload.batch = 2;
  e.workload.sequence = 8;
  e.workload.dtype = DType::Fp32;
  return e;
}

KernelWork scores_of(const Experiment& e, Phase phase) {
  const LayerVolumes v = layer_volumes(e, Plan{}, 0);
  ScheduleWriter writer(0);
  return OpWork(v, e, Plan{}, writer).attention_chunk(phase);  // without the first projections
}

}  // namespace

TEST_CASE("where one layer of four has attention, an attention op has a quarter of it and the rest of recurrences") {
  const Experiment whole = small_attention();
  Experiment e = whole;
  e.model.layers = 4;
  e.model.attention.layers = 1;
  // 2 heads of 4 elements, of one group of keys and queries of 4; a convolution over 4 positions.
  e.model.recurrence = {RecurrenceKind::Mamba2, 3, 2, 4, 1, 4, 4};
  const auto work = [](const Experiment& question, Phase phase) {
    const LayerVolumes v = layer_volumes(question, Plan{}, 0);
    ScheduleWriter writer(0);
    return OpWork(v, question, Plan{}, writer).attention(phase);
  };
  // 16 tokens through 8 x 26 (values and gate of 8, keys and queries of 4, 2 time steps) and 8 x 8. In one chunk of 8
  // positions for each sample: queries by keys of the group, and for each head scores by values, queries by the state,
  // keys by values.
  const double projections = 2. * 16 * 8 * 26 + 2. * 16 * 8 * 8;
  const double states = 2 * (2. * 8 * 8 * 4 + 2 * (2. * 8 * 4 * 8 + 2. * 8 * 4 * 4 + 2. * 4 * 4 * 8));
  const double forward = work(whole, Phase::Forward).flops.value(), back = work(whole, Phase::Backward).flops.value();
  CHECK(work(e, Phase::Forward).flops.value() == Approx(.25 * forward + .75 * (projections + states)));
  CHECK(work(e, Phase::Backward).flops.value() == Approx(.25 * back + .75 * (2 * projections + 3 * states)));
  // Two products and four of states for the recurrence, three kernels for attention.
  CHECK(work(e, Phase::Forward).gemms == 5);  // .75 x 6 + .25 x 3 = 5.25
  // The convolution reads and writes 8 + 8 channels, the gated norm reads 16 and writes 8 elements.
  CHECK(work(e, Phase::Forward).memory_traffic.value() == Approx(.75 * (2 * 16 + 3 * 8) * 16 * 4));
}

TEST_CASE("an index scores all earlier positions by products of its own") {
  const Experiment plain = small_attention();
  Experiment e = plain;
  e.model.attention.window = 2;
  e.model.attention.windows = Windows::Chosen;
  e.model.attention.windowed_layers = e.model.layers;
  Experiment sliding = e;
  sliding.model.attention.windows = Windows::Sliding;
  e.model.attention.index = {3, 2};
  // Queries of 3 heads of 2; a key of 2 and 3 weights; half of the scores of 8 x 8 for each of 3 heads and 2 samples.
  const double index = 2. * 16 * 8 * 6 + 2. * 16 * 8 * 5 + .5 * 2. * 8 * 8 * 2 * 3 * 2;
  CHECK(scores_of(e, Phase::Forward).flops.value() == Approx(scores_of(sliding, Phase::Forward).flops.value() + index));
  CHECK(scores_of(e, Phase::Backward).flops.value() ==
        Approx(scores_of(sliding, Phase::Backward).flops.value() + 2 * index));
}

TEST_CASE("a mask halves the scores of flash attention alone") {
  Experiment e = small_attention();
  const double output = 2 * 16 * 8 * 16;          // 16 tokens through a matrix of 8 x 16
  const double square = 2 * (2 * 8 * 8 * 4) * 8;  // two products of 8 x 8 x 4 for each of 4 heads and 2 samples
  CHECK(scores_of(e, Phase::Forward).flops.value() == output + square / 2);
  CHECK(scores_of(e, Phase::Backward).flops.value() == 2 * output + 2.5 * square / 2);
  e.workload.causal = false;
  CHECK(scores_of(e, Phase::Forward).flops.value() == output + square);
  CHECK(scores_of(e, Phase::Backward).flops.value() == 2 * output + 2.5 * square);
  for (const bool causal : {false, true}) {
    e.workload.causal = causal;
    e.workload.attention = AttentionKernel::Eager;
    CHECK(scores_of(e, Phase::Forward).flops.value() == output + square);
    CHECK(scores_of(e, Phase::Backward).flops.value() == 2 * output + 2 * square);
  }
}

TEST_CASE("eager attention passes its scores through device memory, a kernel for each pass") {
  Experiment e = small_attention();
  CHECK(scores_of(e, Phase::Forward).memory_traffic == Bytes(0));
  e.workload.attention = AttentionKernel::Eager;
  const double scores = 4 * 2 * 4 * 8 * 8;                                              // bytes of 2 x 4 squares
  CHECK(scores_of(e, Phase::Forward).memory_traffic.value() == (2 + 2 + 2) * scores);   // scale, mask, softmax
  CHECK(scores_of(e, Phase::Backward).memory_traffic.value() == (3 + 2 + 2) * scores);  // softmax, mask, scale
  CHECK(scores_of(e, Phase::Backward).memory_kernels == 3);
  e.workload.causal = false;
  CHECK(scores_of(e, Phase::Forward).memory_traffic.value() == (2 + 2) * scores);
  CHECK(scores_of(e, Phase::Forward).memory_kernels == 2);
  // Its products are batches of all heads: queries by keys, probabilities by values; then the output's projection.
  const Schedule s = build_schedule(e, Plan{});
  const Op& attention = *std::ranges::find(s.ops, OpKind::Attention, &Op::kind);
  const auto kernels = s.kernels_of(*attention.kernel());
  REQUIRE(kernels.size() == 4);
  CHECK(kernels[1].shape == gemm_shape(8, 8, 4, 8));
  CHECK(kernels[2].shape == gemm_shape(8, 4, 8, 8));
}

TEST_CASE("products in fp8 cast their right factors in passes of their own") {
  Experiment e = small_attention();
  const LayerVolumes v = layer_volumes(e, Plan{}, 0);
  const Plan plan;
  ScheduleWriter writer(0);
  CHECK(OpWork(v, e, plan, writer).projection(Phase::Forward).memory_traffic == Bytes(0));
  e.workload.products = DType::Fp8;
  const OpWork work(v, e, plan, writer);
  // Forward: 8 x 48 weights, 4 bytes read and 1 written for each. Backward: these, and the gradients of 16 tokens' 48
  // outputs, of which those of the weights are made.
  CHECK(work.projection(Phase::Forward).memory_traffic.value() == 5 * 8 * 48);
  CHECK(work.projection(Phase::Backward).memory_traffic.value() == 5 * (8 * 48 + 16 * 48));
  CHECK(work.projection(Phase::Backward).memory_kernels == 2);
  const ChunkRange all = RowRange{0, v.capacity};
  const auto matrices = static_cast<double>(v.expert_gemms);
  const double weights = static_cast<double>(v.dispatched_experts * v.worked_parameters());
  const auto experts = [&](Phase phase) { return std::get<KernelWork>(work.expert(phase, all)); };
  CHECK(experts(Phase::Forward).memory_traffic.value() == 5 * weights);
  CHECK(experts(Phase::Forward).memory_kernels == matrices);
  // The gradients of the hidden rows, once for each matrix but the last, and those of the outputs.
  const double rows = static_cast<double>(v.expert_rows(all));
  const double gradients = rows * static_cast<double>((v.expert_gemms - 1) * v.worked_hidden() + v.hidden);
  CHECK(experts(Phase::Backward).memory_traffic.value() == 5 * (weights + gradients));
  // The gate and the scores of attention stay as they are.
  CHECK(std::get<KernelWork>(work.gate(Phase::Forward)).memory_kernels == 1);
  const Schedule s = build_schedule(e, plan);
  const auto attention = s.kernels_of(*std::ranges::find(s.ops, OpKind::Attention, &Op::kind)->kernel());
  REQUIRE(attention.size() == 3);
  CHECK(attention[0].dtype == DType::Fp8);
  CHECK_FALSE(attention[1].dtype);
  CHECK(attention[2].dtype == DType::Fp8);
}

TEST_CASE("products backward have the shapes of the gradients of the input and of the weights") {
  for (const bool widens : {false, true}) {
    KernelList kernels(widens);
    kernels.add_product(Phase::Backward, 3, 5, 7);  // forward C[3, 5] = A[3, 7] B[7, 5]
    REQUIRE(kernels.all().size() == 2);
    CHECK(kernels.all()[0].shape == gemm_shape(3, 7, 5));
    const KernelKind kind = widens ? KernelKind::WeightGradient : KernelKind::Gemm;
    CHECK(kernels.all()[1].shape == as_kind(gemm_shape(7, 5, 3), kind));
  }
}

TEST_CASE("layers that are alike share their list of kernels") {
  const Experiment e = test::testbed_b(7);
  const Schedule seven = build_schedule(e, Plan{});
  const Schedule one = build_schedule(test::testbed_b(1), Plan{});
  CHECK(seven.kernels == one.kernels);
}
