// SPDX-License-Identifier: Apache-2.0
#include "models/question/parameters.hpp"

#include "models/base/errors.hpp"
#include "models/question/recurrence_sizes.hpp"

namespace dovetail {
namespace {

std::int64_t norm_size(const Model& m) {
  return m.norms == NormKind::Layer ? 2 * std::int64_t{m.hidden} : m.hidden;
}

std::int64_t made_value_size(const Attention& a) {
  return a.shared_values ? 0 : a.value_head_size();
}

// The norm of its keys has a weight and a bias of each element.
std::int64_t index_size(const Model& m) {
  return index_matrices(m.attention, m.hidden) + 2 * std::int64_t{m.attention.index.size};
}

std::int64_t attention_size(const Model& m, const Attention& a) {
  const std::int64_t matrices = attention_matrices(a, m.hidden, a.heads, a.kv_heads) + (a.sinks ? a.heads : 0);
  if (a.kind == AttentionKind::Latent) return matrices + query_key_norms(a);
  const std::int64_t queries = std::int64_t{a.heads} * a.head_size;
  const std::int64_t keys_values = std::int64_t{a.kv_heads} * (a.head_size + made_value_size(a));
  const std::int64_t biases = m.biases == Biases::None ? 0 : queries + keys_values;
  const std::int64_t output_bias = m.biases == Biases::All || m.biases == Biases::Attention ? m.hidden : 0;
  return matrices + biases + output_bias + query_key_norms(a);
}

std::int64_t ffn_biases(const Model& m, std::int64_t ffn_hidden, std::int64_t output) {
  return m.biases == Biases::All ? (m.expert_gemms() - 1) * ffn_hidden + output : 0;
}

// A feed-forward part with so many hidden elements.
std::int64_t ffn_size(const Model& m, std::int64_t ffn_hidden) {
  return ffn_matrices(m, ffn_hidden) + ffn_biases(m, ffn_hidden, m.hidden);
}

// Its feed-forward part and the norm before it. With `experts` of the routed experts of an MoE layer.
void add_ffn(const Model& m, bool moe, int experts, Parameters& p) {
  p.norms += norm_size(m);
  if (!moe) {
    p.dense_ffn += ffn_size(m, m.dense_hidden);
    return;
  }
  p.router += std::int64_t{m.experts} * (m.hidden + (m.router.correction_bias ? 1 : 0));
  p.routed_experts += experts * (routed_expert_matrices(m) + ffn_biases(m, m.expert_hidden, m.row_width()));
  if (m.expert_input > 0) p.router += 2 * std::int64_t{m.hidden} * m.expert_input;
  p.shared_experts += m.shared_experts.count * ffn_size(m, m.shared_experts.hidden);
  if (m.shared_experts.gate) p.shared_experts += m.hidden;
}

// Attention and recurrences each have a norm before them. They share it if all layers have both.
void add_mixers(const Model& m, Parameters& p) {
  const std::int64_t attention = m.attention_layers(), recurrence = m.recurrence.layers;
  const std::int64_t windowed = m.attention.windowed.heads > 0 ? m.attention.windowed_layers : 0;
  const bool beside = attention == m.layers && recurrence == m.layers;
  p.attention += (attention - windowed) * attention_size(m, m.attention);
  p.attention += m.index_layers() > 0 ? m.index_layers() * index_size(m) : 0;
  if (windowed > 0) p.attention += windowed * attention_size(m, m.attention.in_windows());
  p.recurrence += recurrence > 0 ? recurrence * recurrence_sizes(m.recurrence, m.hidden, 1).parameters() : 0;
  p.norms += (beside ? attention : attention + recurrence) * norm_size(m);
}

// As DeepSeek-V3's: an MoE layer behind norms of both of its inputs, a projection of the two and a norm at its end.
std::int64_t mtp_layer(const Model& m, int experts) {
  Parameters layer;
  add_ffn(m, true, experts, layer);
  return layer.total() + attention_size(m, m.attention) + (m.index_layers() > 0 ? index_size(m) : 0) +
         2 * std::int64_t{m.hidden} * m.hidden + 4 * norm_size(m);
}

Parameters count(const Model& m, int experts) {
  Parameters p;
  p.embedding = (std::int64_t{m.vocabulary} + m.learned_positions) * m.hidden;
  p.head = m.tied_embeddings ? 0 : std::int64_t{m.vocabulary} * m.hidden;
  p.norms = norm_size(m);
  add_mixers(m, p);
  for (int layer = 0; layer < m.layers; ++layer) add_ffn(m, m.is_moe(layer), experts, p);
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
  const std::int64_t queries = query_heads * a.head_size;
  const std::int64_t output = hidden * (query_heads * a.value_head_size() + gate_columns(a, query_heads));
  if (a.kind == AttentionKind::GroupedQuery)
    return hidden * (queries + key_value_heads * (a.head_size + made_value_size(a))) + output;
  const std::int64_t up_to_queries = (a.q_rank > 0 ? a.q_rank : hidden) * queries;
  const std::int64_t up_to_keys_values = a.kv_rank * query_heads * (std::int64_t{a.nope_size} + a.value_size);
  return hidden * low_rank_width(a) + up_to_queries + up_to_keys_values + output;
}

std::int64_t low_rank_width(const Attention& a) {
  return a.kind == AttentionKind::Latent ? std::int64_t{a.q_rank} + a.kv_rank + a.rope_size : 0;
}

std::int64_t index_matrices(const Attention& a, std::int64_t hidden) {
  const std::int64_t queries = std::int64_t{a.index.heads} * a.index.size;
  return (a.q_rank > 0 ? a.q_rank : hidden) * queries + hidden * (std::int64_t{a.index.size} + a.index.heads);
}

std::int64_t gate_columns(const Attention& a, std::int64_t query_heads) {
  switch (a.gate) {
    case OutputGate::None:
      return 0;
    case OutputGate::Element:
      return query_heads * a.value_head_size();
    case OutputGate::Head:
      return query_heads;
  }
  throw InternalError("gates of attention's output");
}

std::int64_t kept_by_gate(const Attention& a, std::int64_t query_heads) {
  return a.gate == OutputGate::None ? 0 : gate_columns(a, query_heads) + query_heads * a.value_head_size();
}

std::int64_t kept_by_index(const Attention& a) {
  return a.index.heads > 0 ? 2 * std::int64_t{a.window} : 0;
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

std::int64_t routed_expert_matrices(const Model& m) {
  return std::int64_t{m.expert_gemms()} * m.row_width() * m.expert_hidden;
}

std::int64_t ffn_matrices(const Model& m, std::int64_t ffn_hidden) {
  return std::int64_t{m.expert_gemms()} * m.hidden * ffn_hidden;
}

}  // namespace dovetail
