#include "exec/host_executor.hpp"

#include <catch2/catch.hpp>

#include "exec/inproc_transport.hpp"
#include "exec/numerics.hpp"
#include "models/schedule_builder.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

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
