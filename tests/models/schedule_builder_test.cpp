#include "models/schedule_builder.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "models/errors.hpp"
#include "models/names.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

// The ops of one stream, in its order: "dispatch[0].0 esp_all_gather[0].0 ...".
std::string program(const Schedule& s, StreamKind kind) {
  std::string text;
  for (const Op& op : s.ops)
    if (s.streams[static_cast<std::size_t>(op.stream)].kind == kind) text += to_string(op) + " ";
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
      for (TensorId t : s.reads_of(op)) text += to_string(s.tensors[static_cast<std::size_t>(t)]) + " ";
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
      sum["flops"] += op.work.flops.value();
      sum["memory"] += op.work.memory_traffic.value();
      sum[std::string(name_in(collective_names, op.work.collective)) + "/" +
          std::string(name_in(group_kind_names, op.work.group))] += op.work.message.value();
    }
    return sum;
  };
  for (int i = 0; i < 300; ++i) {
    Experiment e = test::round_numbers(pick(1, 4));
    e.workload.capacity_factor = pick(1, 40) / 8.0;
    const int capacity = static_cast<int>(layer_volumes(e).capacity);
    Plan p = chunked(pick(1, std::min(6, capacity)), pick(1, std::min(6, capacity)),
                     pick(0, 1) == 0 ? CommStreams::One : CommStreams::InterIntra);
    p.grad_sync = pick(0, 1) == 0 ? GradSync::After : GradSync::WithDense;
    e.workload.batch = 4;
    Plan sequential;
    sequential.micro_batches = p.micro_batches = 1 << pick(0, 2);
    if (pick(0, 1) == 0) p.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
    if (e.workload.layers > 1 && pick(0, 1) == 0)
      e.parallelism = {.dp = 2, .mp = 1, .ep = 2, .esp = 1, .pp = 2, .edp = 1};
    if (pick(0, 1) == 0)
      for (int layer = 0; layer < e.workload.layers; ++layer)
        p.backward_degrees.push_back(pick(1, std::min(6, capacity)));
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
  p.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
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
