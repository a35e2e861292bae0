// SPDX-License-Identifier: Apache-2.0
// The products and activations of one expert on rows that lie together, which its kernels share.
#pragma once
#include <Eigen/Core>
#include <type_traits>
#include <vector>

#include "exec/host/gemm.hpp"
#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {

template <class Scalar>
struct ExpertWeights {
  Matrix<Scalar> w1, w2, w3;  // w3: gated only
  ExpertWeights(const LayerShape& shape, Scalar* all, std::int64_t shard, std::int64_t expert) {
    const std::int64_t size = shape.hidden * shape.shard;
    Scalar* const first = all + (shard * shape.local_experts + expert) * shape.expert_parameters();
    w1 = {first, shape.hidden, shape.shard};
    w2 = {first + size, shape.shard, shape.hidden};
    if (shape.gated) w3 = {first + 2 * size, shape.hidden, shape.shard};
  }
};

template <class Scalar>
auto row(Scalar* first, std::int64_t count) {  // its exp() is vectorised, std::exp is not
  using Array = Eigen::Array<std::remove_const_t<Scalar>, Eigen::Dynamic, 1>;
  return Eigen::Map<std::conditional_t<std::is_const_v<Scalar>, const Array, Array>>(first, count);
}

// The input of W2, from the hidden rows: these (ffn, after ReLU), or silu(x W1) (x W3), times the rows' scores if they
// have any. It is the hidden rows themselves, or in `kept` or, if that is nowhere, in `memory`.
template <class Scalar>
Matrix<const Scalar> activation(const LayerShape& shape, Matrix<const Scalar> hidden, const Scalar* scores,
                                Matrix<Scalar> kept, std::vector<Scalar>& memory) {
  if (!shape.gated && scores == nullptr) return hidden;
  const std::int64_t s = shape.shard;
  if (kept.data == nullptr) memory.resize(static_cast<std::size_t>(hidden.rows * s));
  const Matrix<Scalar> result = kept.data == nullptr ? Matrix<Scalar>(memory.data(), hidden.rows, s) : kept;
  for (std::int64_t i = 0; i < hidden.rows; ++i) {
    const auto h1 = row(hidden.row(i), s);
    auto to = row(result.row(i), s);
    if (shape.gated)
      to = h1 / (1 + (-h1).exp()) * row(hidden.row(i) + s, s);
    else
      to = h1;
    if (scores != nullptr) to *= scores[i];
  }
  return result;
}

// The gradients of x W1 and, gated, of x W3, from that of the activation; side by side as in hidden.
template <class Scalar>
void activation_backward(const LayerShape& shape, Matrix<const Scalar> hidden, Matrix<const Scalar> d_activation,
                         Matrix<Scalar> d_hidden) {
  const std::int64_t s = shape.shard;
  for (std::int64_t i = 0; i < hidden.rows; ++i) {
    const auto h1 = row(hidden.row(i), s), d = row(d_activation.row(i), s);
    auto d_h1 = row(d_hidden.row(i), s);
    if (!shape.gated) {
      d_h1 = (h1 > 0).select(d, Scalar(0));
      continue;
    }
    const auto h3 = row(hidden.row(i) + s, s);
    auto d_h3 = row(d_hidden.row(i) + s, s);
    d_h3 = (1 + (-h1).exp()).inverse();  // first the sigmoid alone, for d_h1
    d_h1 = d * h3 * d_h3 * (1 + h1 * (1 - d_h3));
    d_h3 *= d * h1;
  }
}

// Adds each row's part to the gradient of its score, and multiplies the gradient of the activation by the score.
template <class Scalar>
void scores_backward(const LayerShape& shape, Matrix<const Scalar> hidden, const Scalar* scores,
                     Matrix<Scalar> d_activation, Scalar* d_scores, std::vector<Scalar>& memory) {
  const Matrix<const Scalar> unweighted = activation<Scalar>(shape, hidden, nullptr, {}, memory);
  for (std::int64_t i = 0; i < hidden.rows; ++i) {
    auto d = row(d_activation.row(i), shape.shard);
    const auto products = d.template cast<double>() * row(unweighted.row(i), shape.shard).template cast<double>();
    d_scores[i] += static_cast<Scalar>(products.sum());
    d *= scores[i];
  }
}

template <class Scalar>
struct Scratch {
  std::vector<Scalar> activation, d_activation;
};

// The forward pass has left this of one run of rows and one shard. `activated` may be nowhere; scores null.
template <class Scalar>
struct KeptRun {
  Matrix<const Scalar> x, hidden, activated;
  const Scalar* scores = nullptr;
};

// Gradients of one run of rows by one shard: from that of the result to those of the hidden rows and of the input.
// d_x: `into`; d_scores: added to, null without scores.
template <class Scalar>
void run_backward_inputs(const LayerShape& shape, const ExpertWeights<const Scalar>& weights,
                         const KeptRun<Scalar>& kept, Matrix<const Scalar> d_output, Matrix<Scalar> d_x, Into into,
                         Matrix<Scalar> d_hidden, Scalar* d_scores, Scratch<Scalar>& scratch) {
  const std::int64_t s = shape.shard;
  scratch.d_activation.resize(static_cast<std::size_t>(kept.hidden.rows * s));
  const Matrix<Scalar> d_activation(scratch.d_activation.data(), kept.hidden.rows, s);
  multiply(d_output, transposed(weights.w2), d_activation);
  if (d_scores != nullptr)
    scores_backward<Scalar>(shape, kept.hidden, kept.scores, d_activation, d_scores, scratch.activation);
  activation_backward<Scalar>(shape, kept.hidden, d_activation, d_hidden);
  multiply(d_hidden.cols_from(0, s), transposed(weights.w1), d_x, into);
  if (shape.gated) multiply(d_hidden.cols_from(s, s), transposed(weights.w3), d_x, Into::Add);
}

// From those of the result and of the hidden rows to those of the weights, which are added to.
template <class Scalar>
void run_backward_weights(const LayerShape& shape, const ExpertWeights<Scalar>& gradient, const KeptRun<Scalar>& kept,
                          Matrix<const Scalar> d_output, Matrix<const Scalar> d_hidden, Scratch<Scalar>& scratch) {
  const std::int64_t s = shape.shard;
  const bool there = kept.activated.data != nullptr;
  multiply(
      transposed(there ? kept.activated : activation<Scalar>(shape, kept.hidden, kept.scores, {}, scratch.activation)),
      d_output, gradient.w2, Into::Add);
  multiply(transposed(kept.x), d_hidden.cols_from(0, s), gradient.w1, Into::Add);
  if (shape.gated) multiply(transposed(kept.x), d_hidden.cols_from(s, s), gradient.w3, Into::Add);
}

// By one shard; its columns of the hidden rows.
template <class Scalar>
void hidden_rows(const LayerShape& shape, const ExpertWeights<const Scalar>& w, Matrix<const Scalar> x,
                 Matrix<Scalar> h) {
  const std::int64_t s = shape.shard;
  multiply(x, w.w1, h.cols_from(0, s));
  if (shape.gated)
    multiply(x, w.w3, h.cols_from(s, s));
  else
    for (std::int64_t i = 0; i < h.rows; ++i) row(h.row(i), s) = row(h.row(i), s).max(Scalar(0));
}

// A shard's columns of hidden rows.
template <class Scalar>
Matrix<Scalar> of_shard(const LayerShape& shape, Matrix<Scalar> hidden, std::int64_t shard) {
  return hidden.cols_from(shard * shape.hidden_width(), shape.hidden_width());
}

// A shard's columns of the activated rows of a run; nowhere if `all` is.
template <class Scalar>
Matrix<Scalar> activated_of(const LayerShape& shape, Scalar* all, std::int64_t first, std::int64_t count,
                            std::int64_t shard) {
  if (all == nullptr) return {};
  const std::int64_t width = shape.weight_shards * shape.shard;
  return Matrix<Scalar>(all + first * width, count, width).cols_from(shard * shape.shard, shape.shard);
}

}  // namespace dovetail::exec
