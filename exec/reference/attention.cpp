// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/attention.hpp"

#include <cmath>

#include "exec/reference/ends.hpp"
#include "exec/reference/latent.hpp"
#include "exec/reference/positions.hpp"
#include "exec/step/gate_scores.hpp"

namespace dovetail::exec::naive {
namespace {

// Probabilities of `query_token` over the tokens of its sample up to itself, for one head.
Values attend(const Sizes& s, const AttentionPass& pass, Size query_token, Size head) {
  const Size first = query_token / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads;
  Values p;
  for (Size t = first; t <= query_token; ++t)
    p.push_back(dot(&pass.query[query_token * s.queries() + head * s.head_size],
                    &pass.key[t * s.keys() + kv * s.head_size], s.head_size) /
                std::sqrt(static_cast<double>(s.head_size)));
  softmax(p);
  return p;
}

void attend_backward(const Sizes& s, const AttentionPass& pass, Size t, Size head, const double* d_context,
                     AttentionPass& d) {
  const Size first = t / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads, n = s.head_size;
  const Values p = attend(s, pass, t, head);
  const auto key_at = [&](Size i) { return (first + i) * s.keys() + kv * n; };
  const auto value_at = [&](Size i) { return (first + i) * s.values() + kv * s.value_size; };
  const Size query_at = t * s.queries() + head * n;
  Values d_p(p.size());
  for (Size i = 0; i < p.size(); ++i) {
    d_p[i] = dot(d_context, &pass.value[value_at(i)], s.value_size);
    add_scaled(p[i], d_context, s.value_size, &d.value[value_at(i)]);
  }
  const double mean = dot(p.data(), d_p.data(), p.size());
  for (Size i = 0; i < p.size(); ++i) {
    const double d_score = p[i] * (d_p[i] - mean) / std::sqrt(static_cast<double>(n));
    add_scaled(d_score, &pass.key[key_at(i)], n, &d.query[query_at]);
    add_scaled(d_score, &pass.query[query_at], n, &d.key[key_at(i)]);
  }
}

// Weights of the norms of queries and keys, or their gradients.
template <class Norms>
auto query_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden, s.query_norm());
}
template <class Norms>
auto key_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden + s.query_norm(), s.key_norm());
}

void make_heads(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass) {
  for (Size t = 0; t < s.tokens; ++t) {
    add_product(&x[t * s.hidden], w.query.data(), s.hidden, s.queries(), &pass.query[t * s.queries()]);
    add_product(&x[t * s.hidden], w.key.data(), s.hidden, s.keys(), &pass.key[t * s.keys()]);
    add_product(&x[t * s.hidden], w.value.data(), s.hidden, s.values(), &pass.value[t * s.values()]);
  }
  if (s.qk_norm != QkNorm::None) {
    pass.query_before_norm = pass.query;
    pass.key_before_norm = pass.key;
    pass.query = norm(query_norm(s, w.norm), pass.query);
    pass.key = norm(key_norm(s, w.norm), pass.key);
  }
  turn(s, {s.queries(), s.head_size}, Turn::On, pass.query);
  turn(s, {s.keys(), s.head_size}, Turn::On, pass.key);
}

Values heads_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                      AttentionPass& d, LayerWeights& gradient) {
  turn(s, {s.queries(), s.head_size}, Turn::Back, d.query);
  turn(s, {s.keys(), s.head_size}, Turn::Back, d.key);
  if (s.qk_norm != QkNorm::None) {
    d.query = norm_backward(query_norm(s, w.norm), pass.query_before_norm, d.query, query_norm(s, gradient.norm));
    d.key = norm_backward(key_norm(s, w.norm), pass.key_before_norm, d.key, key_norm(s, gradient.norm));
  }
  Values d_x(x.size());
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const token = &x[t * s.hidden];
    double* const to = &d_x[t * s.hidden];
    add_gradients(token, w.query.data(), &d.query[t * s.queries()], s.hidden, s.queries(), to, gradient.query.data());
    add_gradients(token, w.key.data(), &d.key[t * s.keys()], s.hidden, s.keys(), to, gradient.key.data());
    add_gradients(token, w.value.data(), &d.value[t * s.values()], s.hidden, s.values(), to, gradient.value.data());
  }
  return d_x;
}

}  // namespace

void add_attention(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& sum) {
  pass.query.assign(s.tokens * s.queries(), 0);
  pass.key.assign(s.tokens * s.keys(), 0);
  pass.value.assign(s.tokens * s.values(), 0);
  pass.context.assign(s.tokens * s.contexts(), 0);
  s.makes_low_ranks() ? make_latent_heads(s, w, x, pass) : make_heads(s, w, x, pass);
  for (Size t = 0; t < s.tokens; ++t) {
    for (Size head = 0; head < s.heads; ++head) {
      const Values p = attend(s, pass, t, head);
      const Size first = t / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads;
      for (Size i = 0; i < p.size(); ++i)
        add_scaled(p[i], &pass.value[(first + i) * s.values() + kv * s.value_size], s.value_size,
                   &pass.context[t * s.contexts() + head * s.value_size]);
    }
    add_product(&pass.context[t * s.contexts()], w.output.data(), s.contexts(), s.hidden, &sum[t * s.hidden]);
  }
}

Values attention_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                          const Values& d_sum, LayerWeights& gradient) {
  AttentionPass d;
  d.query.resize(pass.query.size());
  d.key.resize(pass.key.size());
  d.value.resize(pass.value.size());
  d.context.resize(pass.context.size());
  for (Size t = 0; t < s.tokens; ++t) {
    add_gradients(&pass.context[t * s.contexts()], w.output.data(), &d_sum[t * s.hidden], s.contexts(), s.hidden,
                  &d.context[t * s.contexts()], gradient.output.data());
    for (Size head = 0; head < s.heads; ++head)
      attend_backward(s, pass, t, head, &d.context[t * s.contexts() + head * s.value_size], d);
  }
  return s.makes_low_ranks() ? latent_heads_backward(s, w, x, pass, d, gradient)
                             : heads_backward(s, w, x, pass, d, gradient);
}

}  // namespace dovetail::exec::naive
