// SPDX-License-Identifier: Apache-2.0
#include "planners/closed_form/gradient_partition.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "models/price/calibration.hpp"
#include "models/question/volumes.hpp"
#include "planners/task/analytic_evaluator.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::planners;

namespace {

int uniform(std::mt19937& engine, int low, int high) {
  return std::uniform_int_distribution(low, high)(engine);
}

// Whole numbers throughout, so that times compare exactly.
GradientProblem random_problem(std::mt19937& engine, int layers, int per_layer) {
  GradientProblem p;
  p.elements = layers * per_layer;
  p.alpha = Seconds(uniform(engine, 0, 3));
  p.per_element = Seconds(1);
  p.fixed = Seconds(uniform(engine, 0, 5));
  p.beside_tail = Seconds(uniform(engine, 0, 6));
  p.after_tail = Seconds(uniform(engine, 0, 3));
  for (int layer = layers - 1; layer >= 0; --layer)
    for (Window window : {Window::Moe, Window::Dense}) {
      GradientWindow w{window, layer, static_cast<std::int64_t>(layers - 1 - layer) * per_layer, {}};
      const int options = window == Window::Moe ? uniform(engine, 1, 4) : 1;
      for (int degree = 1; degree <= options; ++degree)
        w.options.push_back({degree, Seconds(uniform(engine, 5, 15)), Seconds(uniform(engine, 0, 12))});
      p.windows.push_back(w);
    }
  return p;
}

double all_reduce(const GradientProblem& p, std::int64_t elements) {
  return elements > 0 ? (p.alpha + p.per_element * static_cast<double>(elements)).value() : 0;
}

double window_time(const GradientProblem& p, const GradientWindow& w, std::int64_t elements) {
  double best = std::numeric_limits<double>::infinity();
  for (const WindowOption& o : w.options)
    best = std::min(best, std::max(o.alone.value(), o.link.value() + all_reduce(p, elements)));
  return best;
}

// Every way to slice, one element at a time.
double brute_force(const GradientProblem& p, std::size_t window, std::int64_t sent) {
  if (window == p.windows.size())
    return p.fixed.value() + std::max(p.beside_tail.value(), all_reduce(p, p.elements - sent) + p.after_tail.value());
  double best = std::numeric_limits<double>::infinity();
  const GradientWindow& w = p.windows[window];
  for (std::int64_t x = 0; x <= w.ready - sent; ++x)
    best = std::min(best, window_time(p, w, x) + brute_force(p, window + 1, sent + x));
  return best;
}

double time_of(const GradientProblem& p, const GradientPartition& partition) {
  double time = p.fixed.value();
  std::int64_t tail = 0;
  for (const GradientWindow& w : p.windows) {
    std::int64_t elements = 0;
    for (const GradientSlice& s : partition.slices)
      if (s.window == w.window && s.layer == w.layer) elements += s.elements;
    double alone = 0, link = 0;
    for (const WindowOption& o : w.options)
      if (w.window == Window::Dense || o.degree == partition.degrees[static_cast<std::size_t>(w.layer)]) {
        alone = o.alone.value();
        link = o.link.value();
      }
    time += std::max(alone, link + all_reduce(p, elements));
  }
  for (const GradientSlice& s : partition.slices)
    if (s.window == Window::Tail) tail += s.elements;
  return time + std::max(p.beside_tail.value(), all_reduce(p, tail) + p.after_tail.value());
}

}  // namespace

TEST_CASE("a partition is as fast as the best of all slicings of small problems") {
  std::mt19937 engine(7);
  for (int i = 0; i < 4'000; ++i) {
    const int layers = uniform(engine, 1, 4);
    const GradientProblem p = random_problem(engine, layers, layers == 4 ? 2 : uniform(engine, 1, 5));
    const GradientPartition partition = partition_gradients(p);
    if (partition.time.value() != brute_force(p, 0, 0)) FAIL("case " << i << ": " << partition.time.value());
    if (time_of(p, partition) != partition.time.value()) FAIL("case " << i << ": slices do not take their time");
    std::int64_t sum = 0;
    for (const GradientSlice& s : partition.slices) {
      sum += s.elements;
      if (s.elements < 1) FAIL("an empty slice");
      if (s.window != Window::Tail && sum > (layers - 1 - s.layer) * (p.elements / layers))
        FAIL("case " << i << ": a slice of gradients that do not exist yet");
    }
    if (sum != p.elements) FAIL("case " << i << ": " << sum << " of " << p.elements);
    if (std::ssize(partition.degrees) != layers) FAIL("degrees of " << partition.degrees.size() << " layers");
  }
}

TEST_CASE("a worked partition") {
  // Two layers of 10 elements at 1 s each, alpha 2 s. Layer 1 runs first and can carry nothing.
  // Layer 0: its experts hide 9 s of all-reduce, so 7 elements; its attention hides 4 s, so 2 more.
  GradientProblem p;
  p.elements = 20;
  p.alpha = Seconds(2);
  p.per_element = Seconds(1);
  const std::vector<WindowOption> experts{{4, Seconds(15), Seconds(6)}}, attention{{1, Seconds(4), Seconds(0)}};
  p.windows = {{Window::Moe, 1, 0, experts},
               {Window::Dense, 1, 0, attention},
               {Window::Moe, 0, 10, experts},
               {Window::Dense, 0, 10, attention}};
  const GradientPartition partition = partition_gradients(p);
  CHECK(partition.slices ==
        std::vector<GradientSlice>{{Window::Moe, 0, 7}, {Window::Dense, 0, 2}, {Window::Tail, 0, 11}});
  CHECK(partition.degrees == std::vector<int>{4, 4});
  CHECK(partition.time.value() == 15 + 4 + 15 + 4 + 2 + 11);
}

TEST_CASE("a layer takes a smaller degree where that hides more") {
  // One window can carry all 20 elements of the layer above: degree 4 is done in 10 s but queues with 9,
  // degree 1 takes 12 s and queues with 2. max(12, 2 + 20) = 22 and nothing else beats 10 + 20.
  GradientProblem p;
  p.elements = 40;
  p.per_element = Seconds(1);
  const std::vector<WindowOption> experts{{1, Seconds(12), Seconds(2)}, {4, Seconds(10), Seconds(9)}};
  p.windows = {{Window::Moe, 1, 0, experts}, {Window::Moe, 0, 20, experts}};
  const GradientPartition partition = partition_gradients(p);
  CHECK(partition.degrees == std::vector<int>{1, 4});
  CHECK(partition.time.value() == 10 + 12 + 30);  // 10 elements hidden beside degree 1
}

struct Groups {
  int dp, mp, ep, esp, edp;
};

TEST_CASE("forecasts hold for all kinds of groups, with and without replicas of experts") {
  const std::array<Groups, 6> all{
      {{2, 2, 2, 2, 1}, {4, 1, 4, 1, 1}, {4, 1, 2, 2, 1}, {1, 4, 2, 2, 1}, {2, 2, 2, 1, 2}, {4, 1, 1, 2, 2}}};
  for (const Groups& g : all)
    for (CommStreams streams : {CommStreams::One, CommStreams::InterIntra}) {
      CAPTURE(g.dp, g.mp, g.ep, g.esp, g.edp, streams == CommStreams::One);
      Experiment e = test::round_numbers(4);
      e.model.attention = {4, 4, 4};
      e.calibration.edit().memory = {Seconds(2e-3), SecondsPerByte(3e-7), {}};
      for (CollectiveCost& c : e.calibration.edit().collectives) c.beta = 2e3 * c.beta;
      e.workload.sequence = 32;
      e.parallelism = {g.dp, g.mp, g.ep, g.esp, 1, g.edp};
      const LayerTimes times = layer_times(e);
      const std::vector<int> degrees{1, 2, 3};
      const GradientPartition partition = partition_gradients(gradient_problem(times, streams, degrees));
      Plan plan;
      plan.scope = Scope::Moe;
      plan.comm_streams = streams;
      const Seconds forward =
          times.layers() * (times.forward.dense() + chunked_makespan(times.forward.moe, streams, times.capacity, 1));
      const double foretold = (forward + partition.time).value();
      const double evaluated = analytic_evaluator(e)(with_partition(plan, partition)).value();
      if (g.ep == 1)  // nothing waits for an all-reduce that has a stream to itself: the forecast may be too high
        CHECK(evaluated <= foretold * (1 + 1e-12));
      else
        CHECK(evaluated == Approx(foretold).epsilon(1e-12));
    }
}

TEST_CASE("partitioned plans validate, take the time foretold, and are not beaten by random slices") {
  std::mt19937 engine(11);
  for (CommStreams streams : {CommStreams::One, CommStreams::InterIntra}) {
    const int layers = 5;
    const Experiment e = test::testbed_b(layers);
    const LayerTimes times = layer_times(e);
    const std::vector<int> degrees{1, 2, 3, 7};  // 20 rows: chunks of 3 and 7 differ
    const Evaluator evaluate = analytic_evaluator(e);
    const GradientPartition partition = partition_gradients(gradient_problem(times, streams, degrees));
    Plan plan;
    plan.scope = Scope::Moe;
    plan.comm_streams = streams;
    plan = with_partition(plan, partition);
    const Seconds forward =
        layers * (times.forward.dense() + chunked_makespan(times.forward.moe, streams, times.capacity, 1));
    const Seconds best = evaluate(plan);
    CHECK(best.value() == Approx((forward + partition.time).value()).epsilon(1e-12));
    CHECK(best <= evaluate(with_slices_of(plan, GradSync::WithDense, times)));
    CHECK(best <= evaluate(with_slices_of(plan, GradSync::After, times)));
    for (int i = 0; i < 200; ++i) {
      Plan other = plan;
      other.backward_degrees.clear();
      other.gradient_slices.clear();
      std::int64_t sent = 0;
      for (int layer = layers - 1; layer >= 0; --layer) {
        other.backward_degrees.push_back(degrees[static_cast<std::size_t>(uniform(engine, 0, 3))]);
        for (Window window : {Window::Moe, Window::Dense}) {
          const std::int64_t left = times.elements_after(layer) - sent;
          const std::int64_t x = left * uniform(engine, 0, 4) / 4;
          if (x > 0) other.gradient_slices.push_back({window, layer, x});
          sent += x;
        }
      }
      other.gradient_slices.push_back({Window::Tail, 0, times.elements_after(-1) - sent});
      if (evaluate(other) < best * (1 - 1e-9)) FAIL("random slices " << i << " are faster");
    }
  }
}

TEST_CASE("each pipeline stage's gradients are partitioned by themselves, in the last micro-batch's pass") {
  Experiment e = test::testbed_b(5);
  e.parallelism.pp = 2;
  e.parallelism.dp = e.parallelism.ep = 4;
  e.workload.batch = 4;
  Plan plan;
  plan.scope = Scope::Moe;
  plan.comm_streams = CommStreams::InterIntra;
  plan.micro_batches = 4;
  const LayerTimes times = layer_times(e, plan);
  CHECK(times.layout.stages() == 2);
  CHECK(times.capacity == layer_times(test::testbed_b(5)).capacity);  // one of four samples
  const std::vector<int> degrees{1, 2, 4};
  plan = with_partition(plan, partition_gradients(times, plan.comm_streams, degrees));
  const Evaluator evaluate = analytic_evaluator(e);  // validates: stage 0 has layers 0 to 2
  CHECK(evaluate(plan) <= evaluate(with_slices_of(plan, GradSync::WithDense, times)));
  CHECK(evaluate(plan) <= evaluate(with_slices_of(plan, GradSync::After, times)));
}
