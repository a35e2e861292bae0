#include "exec/reference/attention.hpp"

#include <cmath>

#include "exec/reference/ends.hpp"
#include "exec/step/gate_scores.hpp"
#include "exec/step/rotary_rule.hpp"

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
  const Size query_at = t * s.queries() + head * n;
  Values d_p(p.size());
  for (Size i = 0; i < p.size(); ++i) {
    d_p[i] = dot(d_context, &pass.value[key_at(i)], n);
    add_scaled(p[i], d_context, n, &d.value[key_at(i)]);
  }
  const double mean = dot(p.data(), d_p.data(), p.size());
  for (Size i = 0; i < p.size(); ++i) {
    const double d_score = p[i] * (d_p[i] - mean) / std::sqrt(static_cast<double>(n));
    add_scaled(d_score, &pass.key[key_at(i)], n, &d.query[query_at]);
    add_scaled(d_score, &pass.query[query_at], n, &d.key[key_at(i)]);
  }
}

// Rows of heads, one for each token, turned by the token's position in its sample, or back.
void turn(const Sizes& s, Size width, Turn way, Values& rows) {
  if (!s.rotary) return;
  const Size half = s.head_size / 2;
  for (Size at = 0; at < rows.size(); at += s.head_size)
    for (Size i = 0; i < half; ++i) {
      const auto position = static_cast<double>(at / width % s.sequence);
      const double speed = std::pow(rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(s.head_size));
      const double angle = (way == Turn::On ? 1 : -1) * position * speed;
      const double low = rows[at + i], high = rows[at + half + i];
      rows[at + i] = low * std::cos(angle) - high * std::sin(angle);
      rows[at + half + i] = high * std::cos(angle) + low * std::sin(angle);
    }
}

}  // namespace

// Weights of the norms of queries and keys, or their gradients.
template <class Norms>
auto query_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden, s.query_norm());
}
template <class Norms>
auto key_norm(const Sizes& s, Norms& weights) {
  return std::span(weights).subspan(2 * s.hidden + s.query_norm(), s.key_norm());
}

void add_attention(const Sizes& s, const LayerWeights& w, const Values& x, AttentionPass& pass, Values& sum) {
  pass.query.assign(s.tokens * s.queries(), 0);
  pass.key.assign(s.tokens * s.keys(), 0);
  pass.value.assign(s.tokens * s.keys(), 0);
  pass.context.assign(s.tokens * s.queries(), 0);
  for (Size t = 0; t < s.tokens; ++t) {
    add_product(&x[t * s.hidden], w.query.data(), s.hidden, s.queries(), &pass.query[t * s.queries()]);
    add_product(&x[t * s.hidden], w.key.data(), s.hidden, s.keys(), &pass.key[t * s.keys()]);
    add_product(&x[t * s.hidden], w.value.data(), s.hidden, s.keys(), &pass.value[t * s.keys()]);
  }
  if (s.qk_norm != QkNorm::None) {
    pass.query_before_norm = pass.query;
    pass.key_before_norm = pass.key;
    pass.query = norm(query_norm(s, w.norm), pass.query);
    pass.key = norm(key_norm(s, w.norm), pass.key);
  }
  turn(s, s.queries(), Turn::On, pass.query);
  turn(s, s.keys(), Turn::On, pass.key);
  for (Size t = 0; t < s.tokens; ++t) {
    for (Size head = 0; head < s.heads; ++head) {
      const Values p = attend(s, pass, t, head);
      const Size first = t / s.sequence * s.sequence, kv = head * s.kv_heads / s.heads;
      for (Size i = 0; i < p.size(); ++i)
        add_scaled(p[i], &pass.value[(first + i) * s.keys() + kv * s.head_size], s.head_size,
                   &pass.context[t * s.queries() + head * s.head_size]);
    }
    add_product(&pass.context[t * s.queries()], w.output.data(), s.queries(), s.hidden, &sum[t * s.hidden]);
  }
}

Values attention_backward(const Sizes& s, const LayerWeights& w, const Values& x, const AttentionPass& pass,
                          const Values& d_sum, LayerWeights& gradient) {
  AttentionPass d{Values(pass.query.size()),
                  Values(pass.key.size()),
                  Values(pass.value.size()),
                  Values(pass.context.size()),
                  {},
                  {}};
  for (Size t = 0; t < s.tokens; ++t) {
    add_gradients(&pass.context[t * s.queries()], w.output.data(), &d_sum[t * s.hidden], s.queries(), s.hidden,
                  &d.context[t * s.queries()], gradient.output.data());
    for (Size head = 0; head < s.heads; ++head)
      attend_backward(s, pass, t, head, &d.context[t * s.queries() + head * s.head_size], d);
  }
  turn(s, s.queries(), Turn::Back, d.query);
  turn(s, s.keys(), Turn::Back, d.key);
  if (s.qk_norm != QkNorm::None) {
    d.query = norm_backward(query_norm(s, w.norm), pass.query_before_norm, d.query, query_norm(s, gradient.norm));
    d.key = norm_backward(key_norm(s, w.norm), pass.key_before_norm, d.key, key_norm(s, gradient.norm));
  }
  Values d_x(d_sum.size());
  for (Size t = 0; t < s.tokens; ++t) {
    const double* const token = &x[t * s.hidden];
    double* const to = &d_x[t * s.hidden];
    add_gradients(token, w.query.data(), &d.query[t * s.queries()], s.hidden, s.queries(), to, gradient.query.data());
    add_gradients(token, w.key.data(), &d.key[t * s.keys()], s.hidden, s.keys(), to, gradient.key.data());
    add_gradients(token, w.value.data(), &d.value[t * s.keys()], s.hidden, s.keys(), to, gradient.value.data());
  }
  return d_x;
}

}  // namespace dovetail::exec::naive
