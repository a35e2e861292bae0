// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/plan/communication.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/volumes.hpp"
#include "models/schedule/schedule.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

// The ops of one stream, in its order: "dispatch[0].0 esp_all_gather[0].0 ...".
std::string program(const Schedule& s, StreamKind kind) {
  std::string text;
  for (const Op& op : s.ops)
    if (s.streams[op.stream].kind == kind) text += to_string(op) + " ";
  return text;
}

Plan chunked(int forward, int backward, CommStreams streams = CommStreams::One) {
  Plan p;
  p.scope = Scope::Moe;
  p.forward_degree = forward;
  p.backward_degree = backward;
  p.comm_streams = streams;
  return p;
}

Plan block(int degree, CommStreams streams = CommStreams::One) {
  Plan p = chunked(degree, degree, streams);
  p.scope = Scope::Block;
  return p;
}

}  // namespace

TEST_CASE("one communication stream: A1 G1 A2 G2, S1 C1 S2 C2, and the mirror in the backward pass") {
  const Schedule s = build_schedule(test::round_numbers(), chunked(2, 2));
  CHECK(program(s, StreamKind::Communication) ==
        "mp_all_gather[0] mp_reduce_scatter[0] "
        "dispatch[0].0 esp_all_gather[0].0 dispatch[0].1 esp_all_gather[0].1 "
        "esp_reduce_scatter[0].0 combine[0].0 esp_reduce_scatter[0].1 combine[0].1 "
        "d_combine[0].0 d_esp_reduce_scatter[0].0 d_combine[0].1 d_esp_reduce_scatter[0].1 "
        "d_esp_all_gather[0].0 d_dispatch[0].0 d_esp_all_gather[0].1 d_dispatch[0].1 "
        "d_mp_reduce_scatter[0] d_mp_all_gather[0] dense_gradient_all_reduce[0] ");
  CHECK(program(s, StreamKind::Compute) ==
        "attention[0] gate[0] encode[0] expert[0].0 expert[0].1 decode[0] "
        "d_decode[0] d_expert[0].0 d_expert[0].1 d_encode[0] d_gate[0] d_attention[0] update[0] ");
}

TEST_CASE("inter_intra: all-to-all and all-reduce on inter, gathers and scatters on intra (FSMoE)") {
  Plan p = chunked(2, 3, CommStreams::InterIntra);
  p.grad_sync = GradSync::Partitioned;
  const std::int64_t dense = layer_volumes(test::round_numbers()).dense_parameters;
  p.gradient_slices = {{Window::Moe, 0, dense / 2}, {Window::Dense, 0, dense / 4}, {Window::Tail, 0, dense * 5 / 4}};
  const Schedule s = build_schedule(test::round_numbers(2), p);
  CHECK_THAT(program(s, StreamKind::Inter),
             Contains("d_combine[0].0 d_combine[0].1 d_combine[0].2 dense_gradient_all_reduce[0] "
                      "d_dispatch[0].0 d_dispatch[0].1 d_dispatch[0].2 dense_gradient_all_reduce[0] "
                      "dense_gradient_all_reduce[0] "));
  CHECK_THAT(program(s, StreamKind::Intra),
             Contains("mp_all_gather[0] mp_reduce_scatter[0] esp_all_gather[0].0 esp_all_gather[0].1 "
                      "esp_reduce_scatter[0].0 esp_reduce_scatter[0].1 "));
}

TEST_CASE("alternate: one chunk is sent ahead, then they take turns") {
  Plan p = chunked(3, 3);
  p.order = Order::Alternate;
  const Schedule s = build_schedule(test::round_numbers(), p);
  CHECK_THAT(program(s, StreamKind::Communication),
             Contains("dispatch[0].0 esp_all_gather[0].0 dispatch[0].1 esp_all_gather[0].1 "
                      "esp_reduce_scatter[0].0 combine[0].0 dispatch[0].2 esp_all_gather[0].2 "
                      "esp_reduce_scatter[0].1 combine[0].1 esp_reduce_scatter[0].2 combine[0].2 "));
}

TEST_CASE("dispatch_combine: two communicators forward, one backward, gathers go with their all-to-all (MPipeMoE)") {
  Plan p = chunked(2, 2, CommStreams::DispatchCombine);
  p.order = Order::Alternate;
  const Schedule s = build_schedule(test::round_numbers(), p);
  CHECK(program(s, StreamKind::Combine) ==
        "esp_reduce_scatter[0].0 combine[0].0 esp_reduce_scatter[0].1 combine[0].1 ");
  CHECK(program(s, StreamKind::Communication) ==
        "mp_all_gather[0] mp_reduce_scatter[0] "
        "dispatch[0].0 esp_all_gather[0].0 dispatch[0].1 esp_all_gather[0].1 "
        "d_combine[0].0 d_esp_reduce_scatter[0].0 d_combine[0].1 d_esp_reduce_scatter[0].1 "
        "d_esp_all_gather[0].0 d_dispatch[0].0 d_esp_all_gather[0].1 d_dispatch[0].1 "
        "d_mp_reduce_scatter[0] d_mp_all_gather[0] dense_gradient_all_reduce[0] ");
}

TEST_CASE("restoring: copies on a stream of their own, one chunk ahead, the rest where its kind of work goes") {
  Plan p = chunked(3, 3);
  p.order = Order::Alternate;
  const auto run = [&](Restore restore, Buffers buffers) {
    p.restore = restore;
    p.buffers = buffers;
    return build_schedule(test::round_numbers(), p);
  };
  CHECK(program(run(Restore::S1, Buffers::PerChunk), StreamKind::Copy) ==
        "offload[0].0 offload[0].0 offload[0].1 offload[0].1 offload[0].2 offload[0].2 "
        "prefetch[0].0 prefetch[0].0 prefetch[0].1 prefetch[0].1 prefetch[0].2 prefetch[0].2 ");
  const Schedule s4 = run(Restore::S4, Buffers::Double);
  CHECK(program(s4, StreamKind::Copy).empty());
  CHECK_THAT(program(s4, StreamKind::Communication),
             Contains("d_combine[0].0 d_esp_reduce_scatter[0].0 restore_dispatch[0].0 restore_gather[0].0 "
                      "d_combine[0].1 d_esp_reduce_scatter[0].1 restore_dispatch[0].1 restore_gather[0].1 "
                      "d_esp_all_gather[0].0 d_dispatch[0].0 d_combine[0].2 "));
  CHECK_THAT(program(s4, StreamKind::Compute),
             Contains("restore_hidden[0].0 d_expert[0].0 restore_hidden[0].1 d_expert[0].1 restore_hidden[0].2 "));
  const Schedule s1 = run(Restore::S1, Buffers::Double);
  std::vector<std::string> copies;
  for (const Op& op : s1.ops)
    if (op.kind == OpKind::Prefetch) {
      std::string text = to_string(s1.tensors[s1.writes_of(op)[0]]) + " after";
      for (OpId before : s1.dependencies_of(op)) text += " " + to_string(s1.ops[before]);
      copies.push_back(text);
    }
  // One buffer of hidden rows and two of inputs: the input of chunk 2 takes over chunk 0's, its hidden rows chunk 1's.
  CHECK(copies == std::vector<std::string>{"hidden[0].0 after offload[0].0 d_decode[0]",
                                           "expert_input[0].0 after offload[0].0 d_decode[0]",
                                           "expert_input[0].1 after offload[0].1 d_decode[0]",
                                           "hidden[0].1 after offload[0].1 d_expert[0].0 prefetch[0].0",
                                           "expert_input[0].2 after offload[0].2 d_expert[0].0 prefetch[0].0",
                                           "hidden[0].2 after offload[0].2 d_expert[0].1 prefetch[0].1"});
}

TEST_CASE("a group of one rank needs no collective") {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 4, .mp = 1, .ep = 1, .esp = 1, .pp = 1, .edp = 4};
  const Schedule s = build_schedule(e, chunked(2, 2));
  validate(s);
  CHECK(program(s, StreamKind::Communication) == "expert_gradient_all_reduce[0] dense_gradient_all_reduce[0] ");
}

TEST_CASE("a backward chunk reads every forward chunk that shares its capacity rows") {
  Experiment e = test::round_numbers();  // C = 4: forward chunks [0,1) [1,2) [2,4), backward [0,2) [2,4)
  const Schedule s = build_schedule(e, chunked(3, 2));
  std::vector<std::string> inputs;
  for (const Op& op : s.ops)
    if (op.kind == OpKind::Expert && op.phase == Phase::Backward) {
      std::string text;
      for (TensorId t : s.reads_of(op)) text += to_string(s.tensors[t]) + " ";
      inputs.push_back(text);
    }
  CHECK(inputs ==
        std::vector<std::string>{"d_expert_partial[0].0 expert_weights[0] expert_gradient[0] expert_input[0].0 "
                                 "expert_input[0].1 hidden[0].0 hidden[0].1 ",
                                 "d_expert_partial[0].1 expert_weights[0] expert_gradient[0] expert_input[0].2 "
                                 "hidden[0].2 "});
}

TEST_CASE("every plan does the sequential plan's work, in an order that its data allow") {
  std::mt19937 random(1);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto totals = [](const Schedule& s) {
    std::map<std::string, double> sum;
    for (const Op& op : s.ops) {
      sum["flops"] += op.flops().value();
      sum["memory"] += op.memory_traffic().value();
      if (op.exchange() != nullptr)
        sum[std::string(name_in(collective_names, op.collective())) + "/" +
            std::string(name_in(group_kind_names, op.group()))] += op.message().value();
    }
    return sum;
  };
  for (int i = 0; i < 300; ++i) {
    Experiment e = test::round_numbers(pick(1, 4));
    e.workload.capacity_factor = pick(1, 40) / 8.0;
    const int capacity = static_cast<int>(layer_volumes(e).capacity);
    Plan p = chunked(pick(1, std::min(6, capacity)), pick(1, std::min(6, capacity)),
                     std::array{CommStreams::One, CommStreams::InterIntra,
                                CommStreams::DispatchCombine}[static_cast<std::size_t>(pick(0, 2))]);
    p.order =
        std::array{Order::DispatchFirst, Order::Alternate, Order::ReadyFirst}[static_cast<std::size_t>(pick(0, 2))];
    p.grad_sync = pick(0, 1) == 0 ? GradSync::After : GradSync::WithDense;
    e.workload.batch = 4;
    Plan sequential;
    sequential.micro_batches = p.micro_batches = 1 << pick(0, 2);
    if (pick(0, 1) == 0) p.pipeline_schedule = pipeline_schedule("1f1b");
    if (e.workload.layers > 1 && pick(0, 1) == 0)
      e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
    if (pick(0, 1) == 0)
      for (int layer = 0; layer < e.workload.layers; ++layer)
        p.backward_degrees.push_back(pick(1, std::min(6, capacity)));
    if (pick(0, 2) == 0 && capacity >= 2) {
      p.scope = Scope::Block;
      p.forward_degree = p.backward_degree = 2;
      p.backward_degrees.clear();
    }
    p.host_sync = pick(0, 1) == 0;
    const Schedule s = build_schedule(e, p);
    REQUIRE_NOTHROW(validate(s));
    const auto expected = totals(build_schedule(e, sequential));
    const auto actual = totals(s);
    REQUIRE(actual.size() == expected.size());
    for (const auto& [name, value] : expected) REQUIRE(actual.at(name) == Approx(value).epsilon(1e-12));
  }
}

TEST_CASE("gradients of replicated experts are reduced beside their layer's attention, or after the step") {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 2, .esp = 1, .pp = 1, .edp = 2};
  Plan p = chunked(1, 1);
  CHECK_THAT(program(build_schedule(e, p), StreamKind::Communication),
             Contains("d_combine[0].0 d_dispatch[0].0 expert_gradient_all_reduce[1] expert_gradient_all_reduce[0] "
                      "dense_gradient_all_reduce[0] dense_gradient_all_reduce[0] "));
  p.grad_sync = GradSync::WithDense;
  CHECK_THAT(program(build_schedule(e, p), StreamKind::Communication),
             Contains("d_combine[1].0 d_dispatch[1].0 expert_gradient_all_reduce[1] d_combine[0].0 d_dispatch[0].0 "
                      "dense_gradient_all_reduce[0] expert_gradient_all_reduce[0] dense_gradient_all_reduce[0] "));
}

TEST_CASE("fixed chunks are reduced once their gradients exist, in the last micro-batch's pass") {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  e.workload.batch = 2;
  Plan p = chunked(1, 1);
  p.micro_batches = 2;
  p.pipeline_schedule = pipeline_schedule("1f1b");
  p.grad_sync = GradSync::FixedChunks;
  p.gradient_chunk_bytes = 200 * 4;  // a layer has 4 M^2 = 256 dense gradients
  const std::string communication = program(build_schedule(e, p), StreamKind::Communication);
  CHECK_THAT(communication, Contains("d_combine[0].0 d_dispatch[0].0 dispatch[0].0@1 "));
  CHECK_THAT(communication,
             Contains("d_combine[1].0@1 d_dispatch[1].0@1 d_combine[0].0@1 dense_gradient_all_reduce[0]@1 "
                      "d_dispatch[0].0@1 dense_gradient_all_reduce[0] dense_gradient_all_reduce[0] "));
}

TEST_CASE("stages of a pipeline: a class of ranks each, with its layers, weights and transfers") {
  Experiment e = test::round_numbers(3);
  e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
  const Schedule s = build_schedule(e, Plan{});
  validate(s);
  REQUIRE(s.classes.size() == 2);
  CHECK(s.classes[1].ranks == 2);
  CHECK(s.class_of_rank(1) == 0);
  CHECK(s.class_of_rank(2) == 1);
  CHECK(program(s, StreamKind::Send) == "stage_send[2] stage_send[2] ");
  CHECK(program(s, StreamKind::Receive) == "stage_receive[2] stage_receive[2] ");
  for (const Op& op : s.ops)
    if (op.kind == OpKind::Attention) CHECK(s.class_of(op) == (op.layer < 2 ? 0 : 1));
  for (const Tensor& t : s.tensors)
    if (t.kind == TensorKind::ExpertWeights) CHECK(t.rank_class == (t.layer < 2 ? 0 : 1));
  Schedule wrong = s;
  for (Tensor& t : wrong.tensors)
    if (t.kind == TensorKind::Encoded && t.layer == 2) t.rank_class = 0;
  CHECK_THROWS_WITH(validate(wrong), Contains("encode[2] writes a tensor of the wrong rank class"));
  e.parallelism.pp = 4;
  e.parallelism.dp = e.parallelism.ep = 1;
  CHECK_THROWS_WITH(build_schedule(e, Plan{}), Contains("pp 4: more pipeline stages than the 3 layers"));
}

TEST_CASE("block: attention, experts and decode in chunks of tokens, in AMPipe's stream order") {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  const Schedule s = build_schedule(e, block(2));
  validate(s);
  CHECK(program(s, StreamKind::Compute) ==
        "projection[0] attention[0].0 gate[0].0 encode[0].0 attention[0].1 gate[0].1 encode[0].1 "
        "expert[0].0 expert[0].1 decode[0].0 decode[0].1 "
        "d_decode[0].0 d_decode[0].1 d_expert[0].0 d_expert[0].1 "
        "d_encode[0].0 d_gate[0].0 d_attention[0].0 d_encode[0].1 d_gate[0].1 d_attention[0].1 d_projection[0] "
        "update[0] ");
  CHECK(program(s, StreamKind::Communication) ==
        "dispatch[0].0 dispatch[0].1 combine[0].0 combine[0].1 d_combine[0].0 d_combine[0].1 d_dispatch[0].0 "
        "d_dispatch[0].1 dense_gradient_all_reduce[0] ");
}

TEST_CASE("block: the share of causal attention is (2 c + 1) / p^2") {
  const LayerVolumes v = layer_volumes(test::round_numbers());  // 16 positions
  for (int p : {1, 2, 4})
    for (int c = 0; c < p; ++c)
      CHECK(token_part(v, p, c).volumes.attention_score_flops / v.attention_score_flops ==
            Approx((2.0 * c + 1) / (p * p)));
  CHECK(token_part(v, 3, 1).volumes.attention_score_flops / v.attention_score_flops ==
        Approx((10.0 * 10 - 5 * 5) / (16 * 16)));  // positions 5 to 10
}

TEST_CASE("block: chunks of queries that see all keys take equal shares") {
  Experiment e = test::round_numbers();  // 16 positions
  for (const auto& [kernel, causal] : {std::pair{AttentionKernel::Flash, false}, {AttentionKernel::Eager, true}}) {
    e.workload.attention = kernel;
    e.workload.causal = causal;
    const LayerVolumes v = layer_volumes(e);
    CHECK(token_part(v, 4, 0).volumes.attention_score_flops / v.attention_score_flops == Approx(1. / 4));
    CHECK(token_part(v, 3, 1).volumes.attention_score_flops / v.attention_score_flops == Approx(5. / 16));
  }
}

TEST_CASE("eager attention keeps its probabilities, and its scores live in one op") {
  Experiment e = test::round_numbers(2);
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  e.workload.attention = AttentionKernel::Eager;
  const std::int64_t scores = 16 * 16;  // of one sample, for one of the 2 heads on each of 2 ranks
  for (const Plan& plan : {Plan{}, block(2)}) {
    const Schedule s = build_schedule(e, plan);
    validate(s);
    std::int64_t kept = 0, scratch = 0;
    for (const TensorId id : s.tensors.ids()) {
      const Tensor& t = s.tensors[id];
      CHECK(t.kind != TensorKind::LogSumExp);
      if (t.kind == TensorKind::AttentionProbabilities) kept += t.elements;
      if (t.kind != TensorKind::AttentionScores) continue;
      scratch += t.elements;
      CHECK(std::ranges::count_if(s.ops, [&](const Op& op) {
              return std::ranges::count(s.reads_of(op), id) + std::ranges::count(s.writes_of(op), id) > 0;
            }) == 1);
    }
    CHECK(kept == 2 * scores);         // of 2 layers
    CHECK(scratch == 2 * 2 * scores);  // forward, and their gradients backward
  }
}

TEST_CASE("host_sync: every op of a phase is before the wait, every op of the next one after it") {
  Plan p = GENERATE(chunked(2, 2, CommStreams::InterIntra), block(2));
  p.host_sync = true;
  const Schedule s = build_schedule(test::round_numbers(2), p);
  validate(s);
  int syncs = 0;
  std::vector<OpId> reached(s.ops.size());  // the last sync that an op runs after; -1: none
  std::vector<OpId> of_stream(s.streams.size(), -1);
  OpId last_sync;
  for (const OpId i : s.ops.ids()) {
    const Op& op = s.ops[i];
    OpId& stream = of_stream[static_cast<std::size_t>(op.stream)];
    for (OpId d : s.dependencies_of(op)) stream = std::max(stream, reached[static_cast<std::size_t>(d)]);
    CHECK(stream == last_sync);
    if (op.kind == OpKind::HostSync) {
      ++syncs;
      stream = last_sync = i;
    }
    reached[i] = stream;
  }
  CHECK(syncs == 2 * 2 * 2);  // two a layer and pass
}

TEST_CASE("compressed rows: fewer bytes on the wire, kernels around them where no other chunk waits for them") {
  Experiment e = test::round_numbers();  // M = 8, E = 4
  Plan p = chunked(2, 1);
  p.dispatch_wire = Wire::Fp8;
  p.combine_wire = Wire::Bf16;
  const Schedule s = build_schedule(e, p);
  validate(s);
  CHECK(program(s, StreamKind::Compute) ==
        "attention[0] gate[0] encode[0] compress[0].0 compress[0].1 decompress[0].0 expert[0].0 decompress[0].1 "
        "expert[0].1 compress[0].0 compress[0].1 decompress[0].0 decompress[0].1 decode[0] "
        "d_decode[0] d_compress[0].0 d_decompress[0].0 d_expert[0].0 d_compress[0].0 d_decompress[0].0 d_encode[0] "
        "d_gate[0] d_attention[0] update[0] ");
  for (const Op& op : s.ops) {
    const auto rows = static_cast<double>(op.rows.size());
    const double fp8 = rows * 4 * (8 + 4), bf16 = rows * 4 * 8 * 2;
    if (op.kind == OpKind::Dispatch) CHECK(op.message() == Bytes(fp8));
    if (op.kind == OpKind::Combine) CHECK(op.message() == Bytes(bf16));
    if (op.kind == OpKind::EspAllGather && op.phase == Phase::Forward) CHECK(op.message() == Bytes(2 * fp8));
    if (op.kind == OpKind::EspAllGather && op.phase == Phase::Backward)
      CHECK(op.message() == Bytes(2 * rows * 4 * 8 * 4));  // sums over shards: as they are
  }
  e.workload.dtype = DType::Bf16;
  p.dispatch_wire = Wire::Bf16;
  for (const Op& op : build_schedule(e, p).ops) CHECK(op.kind != OpKind::Compress);
}

TEST_CASE("validate finds a schedule whose order its data do not allow") {
  Schedule s = build_schedule(test::round_numbers(), chunked(2, 2, CommStreams::InterIntra));
  for (Op& op : s.ops)
    if (op.kind == OpKind::Expert && op.phase == Phase::Forward) op.dependencies.last = op.dependencies.first;
  CHECK_THROWS_WITH(validate(s), Contains("expert[0].0 is not ordered after esp_all_gather[0].0 on expert_input[0].0"));
}

TEST_CASE("forward_only stops after the forward pass") {
  Experiment e = test::round_numbers(2);
  e.workload.phases = Phases::ForwardOnly;
  for (const Op& op : build_schedule(e, chunked(2, 1)).ops) CHECK(op.phase == Phase::Forward);
}
