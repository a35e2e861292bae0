// SPDX-License-Identifier: Apache-2.0
// Attention by blocks of queries. The backward pass recomputes probabilities from log_sum_exp, as flash kernels do.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/host/gemm.hpp"
#include "exec/host/host_kernels.hpp"
#include "exec/host/rotary.hpp"
#include "exec/host/token_order.hpp"

namespace dovetail::exec {
namespace {

constexpr std::int64_t block_size = 64;  // queries

// One head of one sample: the queries [first, first + count) and all keys that they see.
struct QueryBlock {
  std::int64_t token;         // of the sample's first token in the L tokens
  std::int64_t first, count;  // within the sample
  std::int64_t head, kv_head;
  std::int64_t keys() const { return first + count; }
};

template <class Visit>
void for_each_block(const LayerShape& shape, RowRange positions, Visit visit) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    for (std::int64_t head = 0; head < shape.heads; ++head)
      for (std::int64_t first = positions.first; first < positions.last; first += block_size)
        visit(QueryBlock{sample * shape.sequence, first, std::min(block_size, positions.last - first), head,
                         head * shape.kv_heads / shape.heads});
}

// visit(the tokens of a sample that lie in the range, their rows among those of the range alone).
template <class Visit>
void for_each_sample(const LayerShape& shape, RowRange positions, Visit visit) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    visit(sample * shape.sequence + positions.first, sample * positions.size());
}

template <class Scalar>
struct HeadViews {
  Matrix<Scalar> query, key, value;
  HeadViews(const LayerShape& shape, Matrix<Scalar> qkv, const QueryBlock& b) {
    const ProjectionColumns<Scalar> all(shape, qkv);
    const std::int64_t d = shape.head_size, v = shape.value_head();
    query = all.query.rows_from(b.token + b.first, b.count).cols_from(b.head * d, d);
    key = all.key.rows_from(b.token, b.keys()).cols_from(b.kv_head * d, d);
    value = all.value.rows_from(b.token, b.keys()).cols_from(b.kv_head * v, v);
  }
};

// The block's part of the heads' sums of values (L, C).
template <class Scalar>
Matrix<Scalar> context_of(const LayerShape& shape, Matrix<Scalar> context, const QueryBlock& b) {
  const std::int64_t v = shape.value_head();
  return context.rows_from(b.token + b.first, b.count).cols_from(b.head * v, v);
}

template <class Scalar>
Scalar score_scale(const LayerShape& shape) {
  return Scalar(1) / std::sqrt(static_cast<Scalar>(shape.head_size));
}

template <class Scalar>
using Row = Eigen::Map<Eigen::Array<Scalar, Eigen::Dynamic, 1>>;  // its exp() is vectorised, std::exp is not

// Scores to probabilities; returns the logarithm of the sum of exponentials. Keys after the query get 0.
template <class Scalar>
Scalar causal_softmax(Scalar* row, std::int64_t visible, std::int64_t keys, Scalar scale) {
  Row<Scalar> p(row, visible);
  const Scalar largest = p.maxCoeff() * scale;
  p = (p * scale - largest).exp();
  const Scalar sum = p.sum();
  p /= sum;
  std::fill(row + visible, row + keys, Scalar(0));
  return largest + std::log(sum);
}

// dS from dP in place: dS = P (dP - sum of P dP) scale, with P recomputed into `probabilities` from scores.
template <class Scalar>
void softmax_backward(Scalar* probabilities, Scalar* gradient, std::int64_t visible, std::int64_t keys, Scalar scale,
                      Scalar log_sum_exp) {
  Row<Scalar> p(probabilities, visible), d(gradient, visible);
  p = (p * scale - log_sum_exp).exp();
  const Scalar dot = (p * d).sum();
  d = p * (d - dot) * scale;
  std::fill(probabilities + visible, probabilities + keys, Scalar(0));
  std::fill(gradient + visible, gradient + keys, Scalar(0));
}

template <class Scalar>
Matrix<Scalar> scratch(std::vector<Scalar>& memory, std::int64_t rows, std::int64_t cols) {
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(rows * cols)));
  return {memory.data(), rows, cols};
}

template <class Scalar>
void attend_backward(const LayerShape& shape, const QueryBlock& b, const AttentionState<const Scalar>& state,
                     Matrix<const Scalar> d_context, Matrix<Scalar> p, Matrix<Scalar> d_p, Matrix<Scalar> d_qkv) {
  const HeadViews<const Scalar> head(shape, state.query_key_value, b);
  const HeadViews<Scalar> gradient(shape, d_qkv, b);
  const auto d_out = context_of(shape, d_context, b);
  multiply(head.query, transposed(head.key), p);
  multiply(d_out, transposed(head.value), d_p);
  for (std::int64_t i = 0; i < b.count; ++i)
    softmax_backward(p.row(i), d_p.row(i), b.first + i + 1, b.keys(), score_scale<Scalar>(shape),
                     state.log_sum_exp.row(b.token + b.first + i)[b.head]);
  multiply(transposed(p), d_out, gradient.value, Into::Add);
  multiply(d_p, head.key, gradient.query, Into::Add);
  multiply(transposed(d_p), head.query, gradient.key, Into::Add);
}

// The gradients of what the projections gave, which `memory` takes if that was turned.
template <class Scalar>
ProjectionColumns<const Scalar> before_turn(const LayerShape& shape, Matrix<const Scalar> d_query_key_value,
                                            std::vector<Scalar>& memory) {
  ProjectionColumns<const Scalar> d(shape, d_query_key_value);
  if (!shape.turns_projections()) return d;
  const std::int64_t turned = shape.query_width() + shape.key_width();
  const Matrix<Scalar> back = scratch(memory, shape.sequence_tokens(), turned);
  turn_queries_keys<Scalar>(shape, Turn::Back, d_query_key_value.cols_from(0, turned), back);
  d.query = back.cols_from(0, shape.query_width());
  d.key = back.cols_from(shape.query_width(), shape.key_width());
  return d;
}

}  // namespace

template <class Scalar>
void projection_forward(const LayerShape& shape, std::span<const std::int64_t> rows, Matrix<const Scalar> input,
                        const DenseWeights<const Scalar>& weights, Matrix<Scalar> query_key_value) {
  std::vector<Scalar> memory;
  const Matrix<Scalar> ordered = scratch(memory, input.rows, input.cols);
  order_rows<Scalar>(input, rows, ordered);
  const ProjectionColumns<Scalar> projected(shape, query_key_value);
  multiply(ordered, weights.query, projected.query);
  multiply(ordered, weights.key, projected.key);
  multiply(ordered, weights.value, projected.value);
  if (!shape.turns_projections()) return;
  const Matrix<Scalar> turned = query_key_value.cols_from(0, shape.query_width() + shape.key_width());
  turn_queries_keys<Scalar>(shape, Turn::On, turned, turned);
}

template <class Scalar>
void core_attention(const LayerShape& shape, RowRange positions, const AttentionState<Scalar>& state) {
  std::vector<Scalar> memory;
  for_each_block(shape, positions, [&](const QueryBlock& b) {
    const HeadViews<const Scalar> head(shape, state.query_key_value, b);
    const std::int64_t first = b.token + b.first;
    const Matrix<Scalar> scores = scratch(memory, b.count, b.keys());
    multiply(head.query, transposed(head.key), scores);
    for (std::int64_t i = 0; i < b.count; ++i)
      state.log_sum_exp.row(first + i)[b.head] =
          causal_softmax(scores.row(i), b.first + i + 1, b.keys(), score_scale<Scalar>(shape));
    multiply(scores, head.value, context_of(shape, state.context, b));
  });
}

template <class Scalar>
void attention_forward(const LayerShape& shape, RowRange positions, const DenseWeights<const Scalar>& weights,
                       const AttentionState<Scalar>& state, Matrix<Scalar> partial) {
  core_attention(shape, positions, state);
  for_each_sample(shape, positions, [&](std::int64_t token, std::int64_t row) {
    multiply(state.context.rows_from(token, positions.size()), weights.output,
             partial.rows_from(row, positions.size()));
  });
}

template <class Scalar>
void attention_backward(const LayerShape& shape, RowRange positions, Matrix<const Scalar> d_partial,
                        const AttentionState<const Scalar>& state, const DenseWeights<const Scalar>& weights,
                        Matrix<Scalar> d_query_key_value, Matrix<Scalar> d_output_weights, Half half) {
  std::vector<Scalar> d_context_memory, p_memory, d_p_memory;
  const Matrix<Scalar> d_context = scratch(d_context_memory, shape.sequence_tokens(), shape.context_width());
  for_each_sample(shape, positions, [&](std::int64_t token, std::int64_t row) {
    const Matrix<const Scalar> of_sample = d_partial.rows_from(row, positions.size());
    if (half != Half::Inputs)
      multiply(transposed(state.context.rows_from(token, positions.size())), of_sample, d_output_weights, Into::Add);
    if (half != Half::Weights)
      multiply(of_sample, transposed(weights.output), d_context.rows_from(token, positions.size()));
  });
  if (half == Half::Weights) return;
  for_each_block(shape, positions, [&](const QueryBlock& b) {
    attend_backward<Scalar>(shape, b, state, d_context, scratch(p_memory, b.count, b.keys()),
                            scratch(d_p_memory, b.count, b.keys()), d_query_key_value);
  });
}

template <class Scalar>
void projection_backward(const LayerShape& shape, std::span<const std::int64_t> rows,
                         Matrix<const Scalar> d_query_key_value, Matrix<const Scalar> input,
                         const DenseWeights<const Scalar>& weights, const DenseWeights<Scalar>& gradients,
                         Matrix<Scalar> d_input, Half half) {
  std::vector<Scalar> memory, d_memory, turned_memory;
  const ProjectionColumns<const Scalar> d = before_turn(shape, d_query_key_value, turned_memory);
  if (half != Half::Inputs) {
    const Matrix<Scalar> ordered = scratch(memory, input.rows, input.cols);
    order_rows<Scalar>(input, rows, ordered);
    multiply(transposed(ordered), d.query, gradients.query, Into::Add);
    multiply(transposed(ordered), d.key, gradients.key, Into::Add);
    multiply(transposed(ordered), d.value, gradients.value, Into::Add);
  }
  if (half == Half::Weights) return;
  const Matrix<Scalar> d_ordered = scratch(d_memory, d_input.rows, d_input.cols);
  multiply(d.query, transposed(weights.query), d_ordered);
  multiply(d.key, transposed(weights.key), d_ordered, Into::Add);
  multiply(d.value, transposed(weights.value), d_ordered, Into::Add);
  return_rows<Scalar>(d_ordered, rows, d_input);
}

template void projection_forward<float>(const LayerShape&, std::span<const std::int64_t>, Matrix<const float>,
                                        const DenseWeights<const float>&, Matrix<float>);
template void core_attention<float>(const LayerShape&, RowRange, const AttentionState<float>&);
template void attention_forward<float>(const LayerShape&, RowRange, const DenseWeights<const float>&,
                                       const AttentionState<float>&, Matrix<float>);
template void attention_backward<float>(const LayerShape&, RowRange, Matrix<const float>,
                                        const AttentionState<const float>&, const DenseWeights<const float>&,
                                        Matrix<float>, Matrix<float>, Half);
template void projection_backward<float>(const LayerShape&, std::span<const std::int64_t>, Matrix<const float>,
                                         Matrix<const float>, const DenseWeights<const float>&,
                                         const DenseWeights<float>&, Matrix<float>, Half);
template void projection_forward<double>(const LayerShape&, std::span<const std::int64_t>, Matrix<const double>,
                                         const DenseWeights<const double>&, Matrix<double>);
template void core_attention<double>(const LayerShape&, RowRange, const AttentionState<double>&);
template void attention_forward<double>(const LayerShape&, RowRange, const DenseWeights<const double>&,
                                        const AttentionState<double>&, Matrix<double>);
template void attention_backward<double>(const LayerShape&, RowRange, Matrix<const double>,
                                         const AttentionState<const double>&, const DenseWeights<const double>&,
                                         Matrix<double>, Matrix<double>, Half);
template void projection_backward<double>(const LayerShape&, std::span<const std::int64_t>, Matrix<const double>,
                                          Matrix<const double>, const DenseWeights<const double>&,
                                          const DenseWeights<double>&, Matrix<double>, Half);

}  // namespace dovetail::exec
