// SPDX-License-Identifier: Apache-2.0
// Random models are the same numbers however they are asked for.
#include "exec/reference/model_data.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>

#include "exec/reference/in_parallel.hpp"
#include "exec/reference/random_numbers.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// In two parts, of which the second is drawn first.
Values in_parts(const Numbers& numbers, std::int64_t elements) {
  Values values(static_cast<std::size_t>(elements), -1);
  const std::int64_t middle = elements / 3;
  numbers(middle, {values.data() + middle, values.data() + elements});
  numbers(0, {values.data(), values.data() + middle});
  return values;
}

}  // namespace

TEST_CASE("What a rank draws for itself is its part of the whole model") {
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    const Experiment e = random_executable(random);
    const int parts = e.workload.batch % 2 == 0 ? 2 : 1;
    const ModelData whole = random_model_data(e, 5, parts), later = random_rank_data(5, parts);
    for (int layer = 0; layer < e.workload.layers; ++layer) {
      const LayerWeights& weights = whole.layers[static_cast<std::size_t>(layer)];
      CHECK(in_parts(router_numbers(e, later, layer), std::ssize(weights.router)) == weights.router);
      for (int rank = 0; rank < e.cluster.gpus(); ++rank) {
        const Values dense = dense_shard(e, weights, rank);
        CHECK(in_parts(dense_numbers(e, later, layer, rank), std::ssize(dense)) == dense);
        CHECK(in_parts(dense_numbers(e, whole, layer, rank), std::ssize(dense)) == dense);
        if (!e.model.is_moe(layer)) continue;
        const Values experts = expert_shard(e, weights, rank);
        CHECK(in_parts(expert_numbers(e, later, layer, rank), std::ssize(experts)) == experts);
        CHECK(in_parts(expert_numbers(e, whole, layer, rank), std::ssize(experts)) == experts);
      }
    }
    CHECK(in_parts(input_numbers(later, false), std::ssize(whole.input)) == whole.input);
    CHECK(in_parts(input_numbers(later, true), std::ssize(whole.input)) == whole.output_gradient);
  }
}

TEST_CASE("Random numbers have mean 0 and variance 1 and differ between keys and places") {
  constexpr int count = 100000;
  double sum = 0, squares = 0, product = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = about_normal(1, i);
    sum += x;
    squares += x * x;
    product += x * about_normal(2, i) + x * about_normal(1, i + 1);
  }
  const double deviation = 1 / std::sqrt(count);
  CHECK(std::abs(sum / count) < 4 * deviation);
  CHECK(std::abs(squares / count - 1) < 4 * deviation * std::sqrt(2.));
  CHECK(std::abs(product / count) < 4 * deviation * std::sqrt(2.));
}

TEST_CASE("A parallel loop does each part once") {
  for (const std::int64_t count : {0, 1, 1000, 3000000}) {
    std::mutex mutex;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    in_parallel(count, [&](std::int64_t first, std::int64_t last) {
      const std::lock_guard lock(mutex);
      ranges.emplace_back(first, last);
    });
    std::ranges::sort(ranges);
    std::int64_t next = 0;
    for (const auto& [first, last] : ranges) {
      CHECK(first == next);
      next = last;
    }
    CHECK(next == count);
  }
}
