// SPDX-License-Identifier: Apache-2.0
#include "models/question/parameters.hpp"

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

std::int64_t norm_size(const Model& m) {
  return m.norms == NormKind::Layer ? 2 * std::int64_t{m.hidden} : m.hidden;
}

std::int64_t attention_size(const Model& m) {
  const Attention& a = m.attention;
  const std::int64_t sinks = a.sinks ? a.heads : 0;
  const std::int64_t matrices = attention_matrices(a, m.hidden, a.heads, a.kv_heads) + sinks;
  if (a.kind == AttentionKind::Latent) return matrices + query_key_norms(a);
  const std::int64_t queries = std::int64_t{a.heads} * a.head_size, keys = std::int64_t{a.kv_heads} * a.head_size;
  const std::int64_t biases = m.biases == Biases::None ? 0 : queries + 2 * keys;
  const std::int64_t output_bias = m.biases == Biases::All || m.biases == Biases::Attention ? m.hidden : 0;
  return matrices + biases + output_bias + query_key_norms(a);
}

// A feed-forward part with so many hidden elements.
std::int64_t ffn_size(const Model& m, std::int64_t ffn_hidden) {
  const std::int64_t biases = m.biases == Biases::All ? (m.expert_gemms() - 1) * ffn_hidden + m.hidden : 0;
  return ffn_matrices(m, ffn_hidden) + biases;
}

// With `experts` of the routed experts of an MoE layer.
void add_layer(const Model& m, bool moe, int experts, Parameters& p) {
  p.attention += attention_size(m);
  p.norms += 2 * norm_size(m);
  if (!moe) {
    p.dense_ffn += ffn_size(m, m.dense_hidden);
    return;
  }
  p.router += std::int64_t{m.experts} * (m.hidden + (m.router.correction_bias ? 1 : 0));
  p.routed_experts += experts * ffn_size(m, m.expert_hidden);
  p.shared_experts += m.shared_experts.count * ffn_size(m, m.shared_experts.hidden);
  if (m.shared_experts.gate) p.shared_experts += m.hidden;
}

// As DeepSeek-V3's: an MoE layer behind norms of both of its inputs, a projection of the two and a norm at its end.
std::int64_t mtp_layer(const Model& m, int experts) {
  Parameters layer;
  add_layer(m, true, experts, layer);
  return layer.total() + 2 * std::int64_t{m.hidden} * m.hidden + 3 * norm_size(m);
}

Parameters count(const Model& m, int experts) {
  Parameters p;
  p.embedding = (std::int64_t{m.vocabulary} + m.learned_positions) * m.hidden;
  p.head = m.tied_embeddings ? 0 : std::int64_t{m.vocabulary} * m.hidden;
  p.norms = norm_size(m);
  for (int layer = 0; layer < m.layers; ++layer) add_layer(m, m.is_moe(layer), experts, p);
  if (m.mtp_layers > 0) p.mtp = m.mtp_layers * mtp_layer(m, experts);
  return p;
}

}  // namespace

Parameters parameters(const Model& model) {
  return count(model, model.experts);
}

Parameters active_parameters(const Model& model) {
  return count(model, model.top_k);
}

std::int64_t attention_matrices(const Attention& a, std::int64_t hidden, std::int64_t query_heads,
                                std::int64_t key_value_heads) {
  const std::int64_t queries = query_heads * a.head_size, output = query_heads * a.value_head_size() * hidden;
  if (a.kind == AttentionKind::GroupedQuery) return hidden * (queries + 2 * key_value_heads * a.head_size) + output;
  const std::int64_t up_to_queries = (a.q_rank > 0 ? a.q_rank : hidden) * queries;
  const std::int64_t up_to_keys_values = a.kv_rank * query_heads * (std::int64_t{a.nope_size} + a.value_size);
  return hidden * low_rank_width(a) + up_to_queries + up_to_keys_values + output;
}

std::int64_t low_rank_width(const Attention& a) {
  return a.kind == AttentionKind::Latent ? std::int64_t{a.q_rank} + a.kv_rank + a.rope_size : 0;
}

std::int64_t query_key_norms(const Attention& a) {
  if (a.kind == AttentionKind::Latent) return a.q_rank + a.kv_rank;
  switch (a.qk_norm) {
    case QkNorm::None:
      return 0;
    case QkNorm::Head:
      return 2 * std::int64_t{a.head_size};
    case QkNorm::Width:
      return (std::int64_t{a.heads} + a.kv_heads) * a.head_size;
  }
  throw InternalError("norms of queries and keys");
}

std::int64_t ffn_matrices(const Model& m, std::int64_t ffn_hidden) {
  return std::int64_t{m.expert_gemms()} * m.hidden * ffn_hidden;
}

}  // namespace dovetail
