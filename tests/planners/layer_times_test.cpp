// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/layer_times.hpp"

#include <catch2/catch.hpp>

#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

void check_chunk(const ChunkTime& chunk, double alpha_ms, double work_ms) {
  CHECK(chunk.alpha.value() * 1e3 == Approx(alpha_ms));
  CHECK(chunk.work.value() * 1e3 == Approx(work_ms));
}

}  // namespace

TEST_CASE("layer times of Mixtral on testbed B by its published constants") {
  const LayerTimes t = layer_times(test::testbed_b(3));
  CHECK(t.layers() == 3);
  // T = 256 / 4 = 64 tokens a rank; C = ceil(2 * 1.2 * 64 / 8) = ceil(19.2)
  CHECK(t.capacity == 20);
  // n_a2a = C E M = 20 * 8 * 4096 = 655,360 elements; gathered over 4 ranks: 2,621,440
  check_chunk(t.forward.moe.all_to_all, .175, 655360 * 1.224e-6);
  check_chunk(t.forward.moe.all_gather, .032, 2621440 * 6.72e-7);
  check_chunk(t.forward.moe.reduce_scatter, .0391, 2621440 * 6.68e-7);
  // 3 GEMMs of together 2,621,440 * (14,336 / 4) * 3 multiply-adds
  check_chunk(t.forward.moe.expert, 3 * .0924, 2621440.0 * 3584 * 3 * 1.768e-10);
  // Backward: gathers and scatters change places but not kinds; twice the GEMMs.
  check_chunk(t.backward.moe.all_to_all, .175, 655360 * 1.224e-6);
  check_chunk(t.backward.moe.all_gather, .032, 2621440 * 6.72e-7);
  check_chunk(t.backward.moe.reduce_scatter, .0391, 2621440 * 6.68e-7);
  check_chunk(t.backward.moe.expert, 6 * .0924, 2 * 2621440.0 * 3584 * 3 * 1.768e-10);
  // Attention's model-parallel buffers: 256 tokens * 4096
  CHECK(t.forward.mp_before.value() * 1e3 == Approx(.032 + 1048576 * 6.72e-7));
  CHECK(t.forward.mp_after.value() * 1e3 == Approx(.0391 + 1048576 * 6.68e-7));
  CHECK(t.backward.mp_before.value() * 1e3 == Approx(.032 + 1048576 * 6.72e-7));
  CHECK(t.backward.mp_after.value() * 1e3 == Approx(.0391 + 1048576 * 6.68e-7));
  // n_ar = 2.5 M^2 / 4: eight of 32 key/value heads
  CHECK(t.dense_elements == std::vector<std::int64_t>(3, 10'485'760));
  CHECK(t.all_reduce_alpha.value() * 1e3 == Approx(.0837));
  CHECK(t.all_reduce_per_element.value() * 1e3 == Approx(2.396e-6));
  CHECK(t.expert_all_reduce == Seconds(0));  // 8 experts on 8 nodes: no replicas
}

TEST_CASE("an all-to-all in steps takes all of them") {
  Experiment e = test::round_numbers();
  e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1, .pp = 1, .edp = 1};
  Plan plan;
  plan.all_to_all = AllToAll::TwoDimensional;
  // 4 rows * 4 experts * 8 * 4 bytes = 512 B twice at 1 ms + 1 ns/B; copies are free
  check_chunk(layer_times(e).forward.moe.all_to_all, 1, 512e-6);
  check_chunk(layer_times(e, plan).forward.moe.all_to_all, 2, 2 * 512e-6);
}

TEST_CASE("a forward-only workload has no backward times") {
  Experiment e = test::round_numbers(2);
  e.workload.phases = Phases::ForwardOnly;
  const LayerTimes t = layer_times(e);
  CHECK(t.backward.dense() == Seconds(0));
  CHECK(t.backward.moe.expert.work == Seconds(0));
  CHECK(t.all_reduce_alpha == Seconds(0));
  CHECK(t.forward.dense() > Seconds(0));
}
