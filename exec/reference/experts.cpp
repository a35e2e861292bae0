// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/experts.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail::exec::naive {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

ExpertPass feed_forward(const Sizes& s, const LayerWeights& w, Size e, const double* x) {
  const Size at = e * s.hidden * s.expert_hidden;
  ExpertPass pass{Values(s.expert_hidden), Values(s.expert_hidden), Values(s.expert_hidden), Values(s.hidden)};
  add_product(x, &w.w1[at], s.hidden, s.expert_hidden, pass.h1.data());
  if (!w.w3.empty()) add_product(x, &w.w3[at], s.hidden, s.expert_hidden, pass.h3.data());
  for (Size i = 0; i < s.expert_hidden; ++i)
    pass.activation[i] = w.w3.empty() ? std::max(pass.h1[i], 0.0) : pass.h1[i] * sigmoid(pass.h1[i]) * pass.h3[i];
  add_product(pass.activation.data(), &w.w2[at], s.expert_hidden, s.hidden, pass.output.data());
  return pass;
}

void feed_forward_backward(const Sizes& s, const LayerWeights& w, Size e, const double* x, const ExpertPass& pass,
                           const double* d_output, double* d_x, LayerWeights& gradient) {
  const Size at = e * s.hidden * s.expert_hidden;
  Values d_activation(s.expert_hidden), d_h1(s.expert_hidden), d_h3(s.expert_hidden);
  add_gradients(pass.activation.data(), &w.w2[at], d_output, s.expert_hidden, s.hidden, d_activation.data(),
                &gradient.w2[at]);
  for (Size i = 0; i < s.expert_hidden; ++i) {
    const double h = pass.h1[i], g = sigmoid(h);
    if (w.w3.empty()) {
      d_h1[i] = h > 0 ? d_activation[i] : 0;
    } else {
      d_h1[i] = d_activation[i] * pass.h3[i] * (g + h * g * (1 - g));
      d_h3[i] = d_activation[i] * h * g;
    }
  }
  add_gradients(x, &w.w1[at], d_h1.data(), s.hidden, s.expert_hidden, d_x, &gradient.w1[at]);
  if (!w.w3.empty()) add_gradients(x, &w.w3[at], d_h3.data(), s.hidden, s.expert_hidden, d_x, &gradient.w3[at]);
}

namespace {

// One shard of one expert, among those of all: (shards, E, parameters).
template <class Numbers>
auto shard_of(const LayerShape& shape, Numbers& all, Size shard, Size e) {
  const auto size = static_cast<Size>(shape.custom_parameters);
  return std::span(all).subspan((shard * static_cast<Size>(shape.experts) + e) * size, size);
}

Size shards_of(const LayerShape& shape) {
  return static_cast<Size>(shape.expert_sizes.shards);
}

}  // namespace

ExpertPass routed_expert(const LayerShape& shape, const Sizes& s, const LayerWeights& w, Size e, const double* x) {
  if (shape.extensions.expert == nullptr) return feed_forward(s, w, e, x);
  ExpertPass pass;
  pass.output.resize(s.hidden);
  for (Size shard = 0; shard < shards_of(shape); ++shard) {
    Values partial(s.hidden);
    shape.extensions.expert->forward(shape.expert_sizes, {x, s.hidden}, shard_of(shape, w.custom_experts, shard, e),
                                     partial, pass.kept.emplace_back(static_cast<Size>(shape.custom_kept)));
    add_scaled(1, partial.data(), s.hidden, pass.output.data());
  }
  return pass;
}

void routed_expert_backward(const LayerShape& shape, const Sizes& s, const LayerWeights& w, Size e, const double* x,
                            const ExpertPass& pass, const double* d_output, double* d_x, LayerWeights& gradient) {
  if (shape.extensions.expert == nullptr) return feed_forward_backward(s, w, e, x, pass, d_output, d_x, gradient);
  for (Size shard = 0; shard < shards_of(shape); ++shard) {
    Values partial(s.hidden);
    shape.extensions.expert->backward(shape.expert_sizes, {x, s.hidden}, shard_of(shape, w.custom_experts, shard, e),
                                      pass.kept[shard], {d_output, s.hidden}, partial,
                                      shard_of(shape, gradient.custom_experts, shard, e));
    add_scaled(1, partial.data(), s.hidden, d_x);
  }
}

}  // namespace dovetail::exec::naive
