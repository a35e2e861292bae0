#include "models/schedule_builder.hpp"

#include <array>
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

TEST_CASE("alternate: one chunk is sent ahead, then they take turns") {
  Plan p = chunked(3, 3);
  p.order = Order::Alternate;
  const Schedule s = build_schedule(test::round_numbers(), p);
  CHECK_THAT(program(s, StreamKind::Communication),
             Contains("dispatch[0].0 esp_all_gather[0].0 dispatch[0].1 esp_all_gather[0].1 "
                      "esp_reduce_scatter[0].0 combine[0].0 dispatch[0].2 esp_all_gather[0].2 "
                      "esp_reduce_scatter[0].1 combine[0].1 esp_reduce_scatter[0].2 combine[0].2 "));
}

TEST_CASE("dispatch_combine: two communicators forward, one backward; gathers go with their all-to-all (MPipeMoE)") {
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

TEST_CASE("restoring: copies on a stream of their own, one chunk ahead; the rest where its kind of work goes") {
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
      std::string text = to_string(s1.tensors[static_cast<std::size_t>(s1.writes_of(op)[0])]) + " after";
      for (OpId before : s1.dependencies_of(op)) text += " " + to_string(s1.ops[static_cast<std::size_t>(before)]);
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
                     std::array{CommStreams::One, CommStreams::InterIntra,
                                CommStreams::DispatchCombine}[static_cast<std::size_t>(pick(0, 2))]);
    p.order =
        std::array{Order::DispatchFirst, Order::Alternate, Order::ReadyFirst}[static_cast<std::size_t>(pick(0, 2))];
    p.grad_sync = pick(0, 1) == 0 ? GradSync::After : GradSync::WithDense;
    if (pick(0, 1) == 0)
      for (int layer = 0; layer < e.workload.layers; ++layer)
        p.backward_degrees.push_back(pick(1, std::min(6, capacity)));
    const Schedule s = build_schedule(e, p);
    REQUIRE_NOTHROW(validate(s));
    const auto expected = totals(build_schedule(e, Plan{}));
    const auto actual = totals(s);
    REQUIRE(actual.size() == expected.size());
    for (const auto& [name, value] : expected) REQUIRE(actual.at(name) == Approx(value).epsilon(1e-12));
  }
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
