// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "exec/host/host_kernels.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

LayerShape expert_shape(bool gated, std::int64_t capacity) {
  LayerShape s;
  s.hidden = 4;
  s.local_experts = 2;
  s.row_copies = 3;
  s.shard = 5;
  s.capacity = capacity;
  s.gated = gated;
  return s;
}

// All capacity rows of (row_copies, local_experts, C, width) as chunks of `degree`.
struct ChunkedRows {
  std::vector<Values> chunks;
  std::vector<RowRange> rows;
  ChunkedRows(const LayerShape& s, int degree, std::int64_t width) {
    for (int i = 0; i < degree; ++i) {
      rows.push_back(chunk_rows(s.capacity, degree, i));
      chunks.emplace_back(static_cast<std::size_t>(s.row_copies * s.local_experts * rows.back().size() * width));
    }
  }
  // As one chunk of degree 1 would hold them.
  Values whole(const LayerShape& s, std::int64_t width) const {
    Values all;
    for (std::int64_t block = 0; block < s.row_copies * s.local_experts; ++block)
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto first = chunks[i].begin() + block * rows[i].size() * width;
        all.insert(all.end(), first, first + rows[i].size() * width);
      }
    return all;
  }
  void split(const LayerShape& s, const Values& all, std::int64_t width) {
    for (std::int64_t block = 0; block < s.row_copies * s.local_experts; ++block)
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const auto first = all.begin() + (block * s.capacity + rows[i].first) * width;
        std::copy(first, first + rows[i].size() * width, chunks[i].begin() + block * rows[i].size() * width);
      }
  }
};

struct ExpertRun {
  LayerShape shape;
  ChunkedRows input, hidden, partial, d_partial, d_input, d_hidden;
  Values weights, gradient;
  ExpertRun(const LayerShape& s, int forward_degree, int backward_degree)
      : shape(s),
        input(s, forward_degree, s.hidden),
        hidden(s, forward_degree, s.hidden_width()),
        partial(s, forward_degree, s.hidden),
        d_partial(s, backward_degree, s.hidden),
        d_input(s, backward_degree, s.hidden),
        d_hidden(s, backward_degree, s.hidden_width()),
        weights(random_values(static_cast<std::size_t>(s.local_experts * s.expert_parameters()), 1)),
        gradient(weights.size()) {}
  void forward() {
    for (std::size_t i = 0; i < input.chunks.size(); ++i)
      expert_forward<double>(shape, {input.rows[i], input.chunks[i].data()}, weights.data(), hidden.chunks[i].data(),
                             partial.chunks[i].data());
  }
  void backward() {
    for (std::size_t j = 0; j < d_partial.chunks.size(); ++j) {
      std::vector<KeptChunk<double>> kept;
      for (std::size_t i = 0; i < input.chunks.size(); ++i)
        if (input.rows[i].first < d_partial.rows[j].last && d_partial.rows[j].first < input.rows[i].last)
          kept.push_back({{input.rows[i], input.chunks[i].data()}, hidden.chunks[i].data()});
      expert_backward<double>(shape, {d_partial.rows[j], d_partial.chunks[j].data()}, weights.data(), kept,
                              {gradient.data(), d_input.chunks[j].data(), d_hidden.chunks[j].data()});
    }
  }
};

}  // namespace

TEST_CASE("An expert of one row, by hand") {
  LayerShape s = expert_shape(GENERATE(false, true), 1);
  s.local_experts = s.row_copies = s.shard = 1;
  s.hidden = 2;
  ExpertRun run(s, 1, 1);
  run.input.chunks[0] = {1, 2};
  run.weights = {3, -1, 10, 20};                               // W1: 3 - 2 = 1; W2
  if (s.gated) run.weights.insert(run.weights.end(), {1, 1});  // W3: 1 + 2 = 3
  run.forward();
  const double activation = s.gated ? 3 / (1 + std::exp(-1.0)) : 1;
  CHECK(run.partial.chunks[0][0] == Approx(10 * activation));
  CHECK(run.partial.chunks[0][1] == Approx(20 * activation));
}

TEST_CASE("Experts' gradients are those of finite differences") {
  const LayerShape s = expert_shape(GENERATE(false, true), 2);
  ExpertRun run(s, 1, 1);
  run.input.chunks[0] = random_values(run.input.chunks[0].size(), 2);
  run.d_partial.chunks[0] = random_values(run.input.chunks[0].size(), 3);
  run.forward();
  run.backward();
  const auto loss = [&] {
    run.forward();
    return dovetail::test::dot(run.partial.chunks[0], run.d_partial.chunks[0]);
  };
  CHECK(gradient_error(run.input.chunks[0], run.d_input.chunks[0], loss) < 1e-7);
  CHECK(gradient_error(run.weights, run.gradient, loss) < 1e-7);
}

TEST_CASE("Any pair of degrees computes the same, whether they divide the capacity or not") {
  LayerShape s = expert_shape(GENERATE(false, true), 7);
  s.local_experts = GENERATE(1, 2);
  const std::size_t elements = static_cast<std::size_t>(s.row_copies * s.local_experts * s.capacity * s.hidden);
  const Values input = random_values(elements, 2), d_partial = random_values(elements, 3);
  const auto run_with = [&](int forward_degree, int backward_degree) {
    ExpertRun run(s, forward_degree, backward_degree);
    run.input.split(s, input, s.hidden);
    run.d_partial.split(s, d_partial, s.hidden);
    run.forward();
    run.backward();
    return std::array{run.partial.whole(s, s.hidden), run.d_input.whole(s, s.hidden), run.gradient};
  };
  const auto expected = run_with(1, 1);
  for (int forward_degree : {1, 2, 3})
    for (int backward_degree : {1, 3, 4, 7}) {
      const auto got = run_with(forward_degree, backward_degree);
      for (std::size_t part = 0; part < 3; ++part)
        for (std::size_t i = 0; i < expected[part].size(); ++i)
          REQUIRE(got[part][i] == Approx(expected[part][i]).margin(1e-12));
    }
}
