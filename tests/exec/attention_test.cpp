// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "exec/host/host_kernels.hpp"
#include "tests/exec/exec_support.hpp"

using dovetail::RowRange;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

struct AttentionRun {
  LayerShape shape;
  int chunks = 1;  // partial and d_partial: the tokens of one chunk after the other
  std::vector<std::int64_t> rows;
  Values input, weights, partial, qkv, context, lse, d_partial, d_weights, d_input, d_qkv;

  explicit AttentionRun(const LayerShape& s, int chunk_count = 1) : shape(s), chunks(chunk_count) {
    const auto tokens = static_cast<std::size_t>(s.sequence_tokens()), m = static_cast<std::size_t>(s.hidden);
    rows.resize(tokens);
    std::iota(rows.begin(), rows.end(), 0);
    input = random_values(tokens * m, 1);
    weights = random_values(static_cast<std::size_t>(s.dense_parameters()), 2, .5);
    d_partial = random_values(tokens * m, 3);
    partial.resize(tokens * m);
    d_input.resize(tokens * m);
    d_weights.resize(weights.size());
    qkv.resize(tokens * static_cast<std::size_t>(s.query_width() + 2 * s.key_width()));
    d_qkv.resize(qkv.size());
    context.resize(tokens * static_cast<std::size_t>(s.query_width()));
    lse.resize(tokens * static_cast<std::size_t>(s.heads));
  }
  Matrix<double> projected() { return matrix(qkv, shape.query_width() + 2 * shape.key_width()); }
  Matrix<double> of_chunk(Values& all, RowRange positions) {
    return matrix(all, shape.hidden).rows_from(positions.first * shape.samples, positions.size() * shape.samples);
  }
  void forward() {
    const DenseWeights<const double> w(shape, weights.data());
    projection_forward<double>(shape, rows, matrix(input, shape.hidden), w, projected());
    const AttentionState<double> state{projected(), matrix(context, shape.query_width()), matrix(lse, shape.heads)};
    for (int i = 0; i < chunks; ++i) {
      const RowRange positions = dovetail::chunk_rows(shape.sequence, chunks, i);
      attention_forward<double>(shape, positions, w, state, of_chunk(partial, positions));
    }
  }
  void backward() {
    const DenseWeights<const double> w(shape, weights.data());
    const DenseWeights<double> gradients(shape, d_weights.data());
    const AttentionState<const double> state{projected(), matrix(context, shape.query_width()),
                                             matrix(lse, shape.heads)};
    std::ranges::fill(d_qkv, 0);
    const Matrix<double> d_projected = matrix(d_qkv, projected().cols);
    for (int i = 0; i < chunks; ++i) {
      const RowRange positions = dovetail::chunk_rows(shape.sequence, chunks, i);
      attention_backward<double>(shape, positions, of_chunk(d_partial, positions), state, w, d_projected,
                                 gradients.output);
    }
    projection_backward<double>(shape, rows, d_projected, matrix(input, shape.hidden), w, gradients,
                                matrix(d_input, shape.hidden));
  }
  double loss() {
    forward();
    return dovetail::test::dot(partial, d_partial);
  }
};

LayerShape attention_shape(int samples, int sequence, int heads, int kv_heads) {
  LayerShape s;
  s.samples = samples;
  s.sequence = sequence;
  s.hidden = 6;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_size = 3;
  return s;
}

LayerShape turned_by_position(LayerShape s) {
  s.head_size = 4;
  s.rotary = true;
  return s;
}

}  // namespace

TEST_CASE("Attention of one head of size 1, by hand") {
  LayerShape s = attention_shape(1, 2, 1, 1);
  s.hidden = s.head_size = 1;
  AttentionRun run(s);
  run.input = {1, 2};
  run.weights = {1, std::log(2.0), 3, 1};  // q = x, k = x log 2, v = 3 x
  run.forward();
  CHECK(run.partial[0] == Approx(3));  // the first token sees only itself
  // Scores of the second token 2 log 2 and 4 log 2: probabilities 4/20 and 16/20.
  CHECK(run.partial[1] == Approx(.2 * 3 + .8 * 6));
  CHECK(run.lse[1] == Approx(std::log(20.0)));
}

TEST_CASE("Attention is causal and keeps samples apart") {
  AttentionRun run(attention_shape(2, 5, 2, 1));
  run.forward();
  const Values before = run.partial;
  run.input[3 * 6] += 1;  // token 3 of sample 0
  run.forward();
  for (std::size_t t = 0; t < 10; ++t) {
    const bool changed = run.partial[t * 6] != before[t * 6];
    CHECK(changed == (t == 3 || t == 4));
  }
}

TEST_CASE("Attention by chunks of positions is the same attention") {
  LayerShape shape = attention_shape(2, 75, 4, 2);  // more than one block of queries in a chunk
  if (GENERATE(false, true)) shape = turned_by_position(shape);
  AttentionRun whole(shape), chunked(shape, GENERATE(2, 3));
  whole.forward();
  chunked.forward();
  CHECK_THAT(chunked.context, Catch::Approx(whole.context).epsilon(1e-12).margin(1e-12));
  CHECK_THAT(chunked.lse, Catch::Approx(whole.lse).epsilon(1e-12));
}

TEST_CASE("Attention's gradients are those of finite differences, chunked or not") {
  const LayerShape shape =
      GENERATE(attention_shape(1, 7, 2, 2), attention_shape(2, 4, 4, 2), attention_shape(1, 5, 4, 1),
               attention_shape(1, 70, 1, 1), turned_by_position(attention_shape(2, 7, 4, 2)));
  AttentionRun run(shape, GENERATE(1, 3));
  run.forward();
  run.backward();
  const Values d_input = run.d_input, d_weights = run.d_weights;
  CHECK(gradient_error(run.input, d_input, [&] { return run.loss(); }) < 1e-7);
  CHECK(gradient_error(run.weights, d_weights, [&] { return run.loss(); }) < 1e-7);
}
