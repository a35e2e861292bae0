// SPDX-License-Identifier: Apache-2.0
#include "exec/reference/latent.hpp"

#include <algorithm>

#include "exec/reference/ends.hpp"
#include "exec/reference/positions.hpp"

namespace dovetail::exec::naive {
namespace {

// Weights of the norms of the low ranks, or their gradients, behind those of the layer's two norms.
template <class Norms>
auto query_rank_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden, s.q_rank);
}
template <class Norms>
auto key_value_rank_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden + s.q_rank, s.kv_rank);
}

Heads query_heads(const Sizes& s) {
  return {s.queries(), s.head_size, s.nope};
}
Heads position_heads(const Sizes& s) {
  return {s.rope, s.rope};
}

// The projections down: the low ranks before their norms, and the part of the keys that has a position.
void make_low_ranks(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& position) {
  pass.query_before_norm.assign(s.tokens * s.q_rank, 0);
  pass.key_before_norm.clear();
  for (Size t = 0; t < s.tokens; ++t) {
    add_product(&x[t * s.hidden], w.query_down.data(), s.hidden, s.q_rank,
                pass.query_before_norm.data() + t * s.q_rank);
    Values both(s.kv_rank + s.rope);
    add_product(&x[t * s.hidden], w.key_value_down.data(), s.hidden, both.size(), both.data());
    const auto end = both.begin() + static_cast<std::ptrdiff_t>(s.kv_rank);
    pass.key_before_norm.insert(pass.key_before_norm.end(), both.begin(), end);
    position.insert(position.end(), end, both.end());
  }
}

// Queries are made from it.
const Values& query_source(const Sizes& s, const Values& x, const AttentionPass& pass) {
  return s.q_rank > 0 ? pass.query_rank : x;
}

}  // namespace

void make_latent_heads(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass) {
  Values position;
  make_low_ranks(s, w, x, pass, position);
  pass.query_rank = pass.query_before_norm;
  pass.key_value_rank = pass.key_before_norm;
  if (s.low_rank_norms) {
    if (s.q_rank > 0) pass.query_rank = norm(query_rank_norm(s, w.norm), pass.query_before_norm);
    pass.key_value_rank = norm(key_value_rank_norm(s, w.norm), pass.key_before_norm);
  }
  turn(s, position_heads(s), Turn::On, position);
  const Values& source = query_source(s, x, pass);
  const Size inner = source.size() / s.tokens;
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const low = &pass.key_value_rank[t * s.kv_rank];
    add_product(&source[t * inner], w.query.data(), inner, s.queries(), &pass.query[t * s.queries()]);
    add_product(low, w.value.data(), s.kv_rank, s.values(), &pass.value[t * s.values()]);
    Values nope(s.heads * s.nope);
    add_product(low, w.key.data(), s.kv_rank, nope.size(), nope.data());
    for (Size head = 0; head < s.heads; ++head) {
      double* const key = &pass.key[t * s.keys() + head * s.head_size];
      std::copy_n(&nope[head * s.nope], s.nope, key);
      std::copy_n(position.data() + t * s.rope, s.rope, key + s.nope);
    }
  }
  turn(s, query_heads(s), Turn::On, pass.query);
}

Values latent_heads_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                             AttentionPass& d, LayerWeights& gradient) {
  turn(s, query_heads(s), Turn::Back, d.query);
  Values d_x(x.size()), d_position(s.tokens * s.rope), d_query_rank(s.tokens * s.q_rank),
      d_key_value_rank(s.tokens * s.kv_rank);
  Values& d_source = s.q_rank > 0 ? d_query_rank : d_x;
  const Values& source = query_source(s, x, pass);
  const Size inner = source.size() / s.tokens;
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const low = &pass.key_value_rank[t * s.kv_rank];
    double* const d_low = &d_key_value_rank[t * s.kv_rank];
    add_gradients(&source[t * inner], w.query.data(), &d.query[t * s.queries()], inner, s.queries(),
                  &d_source[t * inner], gradient.query.data());
    add_gradients(low, w.value.data(), &d.value[t * s.values()], s.kv_rank, s.values(), d_low, gradient.value.data());
    Values d_nope(s.heads * s.nope);
    for (Size head = 0; head < s.heads; ++head) {
      const double* const d_key = &d.key[t * s.keys() + head * s.head_size];
      std::copy_n(d_key, s.nope, &d_nope[head * s.nope]);
      add_scaled(1, d_key + s.nope, s.rope, d_position.data() + t * s.rope);
    }
    add_gradients(low, w.key.data(), d_nope.data(), s.kv_rank, d_nope.size(), d_low, gradient.key.data());
  }
  turn(s, position_heads(s), Turn::Back, d_position);
  if (s.low_rank_norms) {
    if (s.q_rank > 0)
      d_query_rank = norm_backward(query_rank_norm(s, w.norm), pass.query_before_norm, d_query_rank,
                                   query_rank_norm(s, gradient.norm));
    d_key_value_rank = norm_backward(key_value_rank_norm(s, w.norm), pass.key_before_norm, d_key_value_rank,
                                     key_value_rank_norm(s, gradient.norm));
  }
  for (Size t = 0; t < s.tokens; ++t) {
    double* const to = &d_x[t * s.hidden];
    add_gradients(&x[t * s.hidden], w.query_down.data(), d_query_rank.data() + t * s.q_rank, s.hidden, s.q_rank, to,
                  gradient.query_down.data());
    Values both(&d_key_value_rank[t * s.kv_rank], &d_key_value_rank[t * s.kv_rank] + s.kv_rank);
    both.insert(both.end(), d_position.data() + t * s.rope, d_position.data() + (t + 1) * s.rope);
    add_gradients(&x[t * s.hidden], w.key_value_down.data(), both.data(), s.hidden, both.size(), to,
                  gradient.key_value_down.data());
  }
  return d_x;
}

}  // namespace dovetail::exec::naive
