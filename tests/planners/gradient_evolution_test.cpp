// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/gradient_evolution.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

// Chunks and attention of milliseconds; the gradients of a layer take as long as those to reduce.
LayerTimes random_layers(std::mt19937& engine, std::size_t layers) {
  const auto milliseconds = [&](double high) { return Seconds(test::real(engine, 0, high) * 1e-3); };
  LayerTimes times;
  times.moe.assign(layers, true);
  times.capacity = 960;  // all degrees up to 6 divide it
  times.dense_elements.assign(layers, 1'000'000);
  for (ChunkTime* c : {&times.backward.moe.all_to_all, &times.backward.moe.all_gather,
                       &times.backward.moe.reduce_scatter, &times.backward.moe.expert})
    *c = {milliseconds(.2), milliseconds(4)};
  times.backward.attention = milliseconds(2);
  times.all_reduce_alpha = milliseconds(.1);
  times.all_reduce_per_element = milliseconds(8) / 1e6;
  return times;
}

}  // namespace

TEST_CASE("differential evolution splits gradients as they exist, and never faster than the exact partition") {
  std::mt19937 engine(11);
  double sum = 0, most = 0;
  int equal = 0;
  constexpr int cases = 150;
  for (int i = 0; i < cases; ++i) {
    const LayerTimes times = random_layers(engine, static_cast<std::size_t>(test::integer(engine, 1, 8)));
    const std::vector<int> degrees{1, 2, 3, 4, 6};
    const GradientProblem problem = gradient_problem(times, CommStreams::InterIntra, degrees);
    const GradientPartition exact = partition_gradients(problem), evolved = evolve_partition(problem);
    std::int64_t sent = 0;
    for (const GradientSlice& s : evolved.slices) {
      REQUIRE(s.elements > 0);
      sent += s.elements;
      if (s.window != Window::Tail) REQUIRE(sent <= times.elements_after(s.layer));
    }
    REQUIRE(sent == problem.elements);
    REQUIRE(evolved.degrees.size() == times.moe.size());
    const double excess = evolved.time / exact.time - 1;
    // The exact one counts in whole elements: at most one a window is off.
    REQUIRE(excess > -1e-6);
    sum += excess;
    most = std::max(most, excess);
    equal += excess < 1e-6 ? 1 : 0;
  }
  INFO(equal << " of " << cases << " equal, mean " << sum / cases << ", most " << most);
  CHECK(sum / cases < .03);
  CHECK(most < .2);
  CHECK(most > 0);
}

TEST_CASE("differential evolution gives the same for the same seed") {
  std::mt19937 engine(2);
  const LayerTimes times = random_layers(engine, 5);
  const GradientProblem problem = gradient_problem(times, CommStreams::InterIntra, std::vector{1, 2, 4});
  CHECK(evolve_partition(problem).slices == evolve_partition(problem).slices);
}

TEST_CASE("without generations windows take what they hide and the tail the rest") {
  // Two layers of 10 elements at 1 s. Layer 1 runs first and can send nothing, layer 0 hides 20 s and can send 10.
  GradientProblem p;
  p.elements = 20;
  p.per_element = Seconds(1);
  p.windows = {{Window::Moe, 1, 0, {{2, Seconds(20), Seconds(10)}}},
               {Window::Moe, 0, 10, {{3, Seconds(30), Seconds(10)}}}};
  const GradientPartition partition = evolve_partition(p, {.generations = 0});
  CHECK(partition.slices == std::vector<GradientSlice>{{Window::Moe, 0, 10}, {Window::Tail, 0, 10}});
  CHECK(partition.degrees == std::vector{3, 2});
  CHECK(partition.time == Seconds(20 + 30 + 10));
}
