// SPDX-License-Identifier: Apache-2.0
#include "models/question/volumes.hpp"

#include <algorithm>
#include <cmath>

#include "models/question/extension_sizes.hpp"
#include "models/question/parameters.hpp"
#include "models/question/recurrence_sizes.hpp"

namespace dovetail {

Flops LayerVolumes::expert_flops(std::int64_t rows) const {
  return Flops(2 * static_cast<double>(rows) * static_cast<double>(worked_parameters()));
}

std::int64_t LayerVolumes::of_attention(std::int64_t elements) const {
  return attention_share == 1 ? elements : std::llround(attention_share * static_cast<double>(elements));
}

std::int64_t LayerVolumes::log_sums() const {
  return of_attention(sequence_tokens * query_heads) +
         std::llround(windowed.share * static_cast<double>(sequence_tokens * windowed.heads));
}

HeadVolumes LayerVolumes::whole_heads() const {
  const std::int64_t size = query_width / query_heads;
  return {attention_share,           query_heads,   key_value_width / size, size,
          value_width / query_heads, shared_values, attention_score_flops};
}

namespace {

auto mean_of(double share) {
  return [share](std::int64_t elements) { return std::llround(share * static_cast<double>(elements)); };
}

// More ranks than key/value heads repeat these, and divide the queries of each.
HeadVolumes heads_of_rank(const Attention& a, int mp) {
  HeadVolumes heads;
  heads.key_heads = (a.kv_heads + mp - 1) / mp;
  const std::int64_t ranks_of_head = std::max(1, mp / a.kv_heads);
  heads.heads = heads.key_heads * ((a.heads / a.kv_heads + ranks_of_head - 1) / ranks_of_head);
  heads.head_size = a.head_size;
  heads.value_size = a.value_head_size();
  heads.shared_values = a.shared_values;
  return heads;
}

// Elements of a token.
std::int64_t kept_by_attention(const Attention& a, const HeadVolumes& heads) {
  return heads.projected_width() + kept_by_gate(a, heads.heads);
}

// Sets the volumes of layers with attention; the next two add what the others have to the means.
void set_attention(LayerVolumes& v, const Model& m, int mp) {
  const Attention& a = m.attention;
  const HeadVolumes heads = heads_of_rank(a, mp);
  v.query_heads = heads.heads;
  v.query_width = heads.query_width();
  v.key_value_width = heads.key_width();
  v.value_width = heads.value_width();
  const int windowed = a.windowed.heads > 0 ? a.windowed_layers : 0;
  v.attention_share = static_cast<double>(m.attention_layers() - windowed) / m.layers;
  v.context_width = v.of_attention(v.value_width);
  v.projected_width = v.of_attention(kept_by_attention(a, heads));
  v.low_rank_width = v.of_attention(low_rank_width(a));
  // With mp ranks Latent's projections down to the low ranks are on all of them.
  v.attention_parameters = v.of_attention(attention_matrices(a, v.hidden, heads.heads, heads.key_heads));
  v.shared_values = a.shared_values;
  if (m.index_layers() == 0) return;
  v.index_share = static_cast<double>(m.index_layers()) / m.layers;
  v.attention_parameters += mean_of(v.index_share)(index_matrices(a, v.hidden));
  v.projected_width += mean_of(v.index_share)(kept_by_index(a));
}

void add_windowed_heads(LayerVolumes& v, const Model& m, int mp) {
  if (m.attention.windowed.heads == 0) return;
  const Attention a = m.attention.in_windows();
  v.windowed = heads_of_rank(a, mp);
  v.windowed.share = static_cast<double>(a.windowed_layers) / m.layers;
  const auto mean = mean_of(v.windowed.share);
  v.context_width += mean(v.windowed.value_width());
  v.projected_width += mean(kept_by_attention(a, v.windowed));
  v.attention_parameters += mean(attention_matrices(a, v.hidden, v.windowed.heads, v.windowed.key_heads));
}

void add_recurrence(LayerVolumes& v, const Model& m, int mp) {
  if (m.recurrence.layers == 0) return;
  const RecurrenceSizes sizes = recurrence_sizes(m.recurrence, m.hidden, mp);
  v.recurrence_share = static_cast<double>(m.recurrence.layers) / m.layers;
  const auto mean = mean_of(v.recurrence_share);
  v.context_width += mean(sizes.width);
  v.projected_width += mean(sizes.kept());
  v.attention_parameters += mean(sizes.parameters());
}

// The share of a causal kernel's scores that a layer with windows computes.
double share_in_window(const Attention& a, double sequence) {
  const double window = a.window;
  if (a.window == 0 || window >= sequence) return 1;
  const double chunks = std::floor(sequence / window), rest = sequence - chunks * window;
  const double scores = a.windows == Windows::Chunks ? (chunks * window * window + rest * rest) / 2
                                                     : window * sequence - window * window / 2;
  return scores / (sequence * sequence / 2);
}

// Half of the positions, of those that windows leave.
double seen_in_windows(const Experiment& e) {
  const double sequence = e.workload.sequence;
  return e.workload.causal ? sequence / 2 * share_in_window(e.model.attention, sequence) : sequence;
}

// Flops of a token, in the mean of the layers of which `share` have these heads.
double score_flops(const HeadVolumes& heads, double positions) {
  return 2 * positions * heads.share * static_cast<double>(heads.query_width() + heads.value_width());
}

void set_norms(const Attention& a, LayerVolumes& v) {
  v.norm_parameters = 2 * v.hidden + query_key_norms(a);
  v.normed_tokens = a.kind == AttentionKind::Latent ? v.tokens : v.sequence_tokens;
  if (a.kind == AttentionKind::Latent)
    v.query_key_normed = v.of_attention(a.q_rank + a.kv_rank);
  else if (a.qk_norm != QkNorm::None)
    v.query_key_normed = v.of_attention(v.query_width + v.key_value_width) +
                         mean_of(v.windowed.share)(v.windowed.query_width() + v.windowed.key_width());
}

void set_prediction(int mp, LayerVolumes& v) {
  v.mtp_parameters = 2 * v.hidden * v.hidden / mp;
  v.mtp_norm_parameters = 3 * v.hidden;
  v.norm_parameters += v.mtp_norm_parameters;
}

// Rows of k f T / E, rounded up. A capacity of, say, 153.60000000000002 rows is 154, but 154.00000000000003 is 154 too.
std::int64_t rows_of_factor(const Experiment& e, double factor, std::int64_t tokens) {
  const double rows = e.workload.top_k * factor * static_cast<double>(tokens) / static_cast<double>(e.model.experts);
  return static_cast<std::int64_t>(std::ceil(rows * (1 - 1e-12)));
}

void add_router(const Experiment& e, LayerVolumes& v) {
  const Gate& gate = e.workload.gate;
  v.router_gemms = 1;
  v.routing_entries = v.tokens * e.workload.top_k;
  v.router_parameters = v.hidden * v.experts;
  if (e.extensions.gate != nullptr) {
    v.router_parameters = gate_parameters(e);
  } else if (gate.kind == GateKind::Gshard) {
    v.router_gemms = 2;
    v.router_parameters *= 2;
  } else if (gate.cosine()) {
    const std::int64_t published = gate.kind == GateKind::XMoe ? 16 : 256;
    v.projection = gate.projection > 0 ? gate.projection : std::min(published, v.hidden);
    v.router_gemms = 2;
    v.router_parameters = v.projection * (v.hidden + v.experts) + 1;
  } else if (gate.kind == GateKind::ExpertChoice) {
    v.routing_entries = v.experts * v.capacity;
  } else if (gate.kind == GateKind::SoftMoe) {
    v.routing_entries = 0;
    v.router_parameters *= v.capacity;
  }
  if (e.model.expert_input > 0) v.latent_parameters = 2 * v.hidden * v.row_width;
  v.router_parameters += v.latent_parameters;
}

void add_experts(const Experiment& e, LayerVolumes& v) {
  if (e.extensions.expert != nullptr) {
    v.custom_parameters = expert_parameters(e);
    v.custom_kept = expert_kept(e);
  }
  v.expert_parameters = v.shard_parameters() * v.local_experts;
}

}  // namespace

std::int64_t capacity_limit(const Experiment& e) {
  if (e.model.dense()) return 0;
  const std::int64_t tokens = std::int64_t{e.workload.batch} * e.workload.sequence / e.parallelism.token_shares();
  const double factor = std::fabs(e.workload.capacity_factor);
  return factor > 0 ? rows_of_factor(e, factor, tokens) : tokens;
}

LayerVolumes layer_volumes(const Experiment& e, int layer) {
  const Model& m = e.model;
  const Parallelism& p = e.parallelism;
  LayerVolumes v;
  v.sequence = e.workload.sequence;
  v.sequence_tokens = std::int64_t{e.workload.batch} * e.workload.sequence;
  v.tokens = v.sequence_tokens / p.token_shares();
  v.capacity = e.workload.capacity_factor > 0 ? capacity_limit(e) : e.workload.capacity_rows;
  v.moe = m.is_moe(layer);
  v.experts = m.experts;
  v.local_experts = m.experts / p.ep;
  v.hidden = m.hidden;
  v.row_width = m.row_width();
  v.hidden_shard = m.expert_hidden / p.esp;
  v.peers = p.ep;
  v.esp = p.repeats_tokens() ? 1 : p.esp;
  v.dispatched_experts = v.local_experts;
  v.expert_gemms = m.expert_gemms();
  v.ffn_hidden = m.ffn_hidden(layer) / p.mp;
  v.mp = p.mp;
  set_attention(v, m, p.mp);
  add_windowed_heads(v, m, p.mp);
  add_recurrence(v, m, p.mp);
  v.ffn_parameters = ffn_matrices(m, v.ffn_hidden);
  if (e.workload.whole_layers()) set_norms(m.attention, v);
  if (layer >= e.workload.layers && e.workload.mtp_layers > 0) set_prediction(p.mp, v);
  v.dense_parameters = v.attention_parameters + v.ffn_parameters + v.mtp_parameters;
  if (v.moe) {
    add_router(e, v);
    add_experts(e, v);
  }
  v.skips_masked = e.workload.skips_masked();
  const auto tokens = static_cast<double>(v.sequence_tokens);
  const auto positions = [&](double seen) { return v.skips_masked ? seen : e.workload.sequence; };
  v.attention_score_flops = Flops(tokens * score_flops(v.whole_heads(), positions(seen_positions(e))));
  v.windowed.score_flops = Flops(tokens * score_flops(v.windowed, positions(seen_in_windows(e))));
  return v;
}

double score_flops_of_token(const Experiment& e, const LayerVolumes& v) {
  return score_flops(v.whole_heads(), seen_positions(e)) + score_flops(v.windowed, seen_in_windows(e));
}

double seen_positions(const Experiment& e) {
  const Model& m = e.model;
  const double sequence = e.workload.sequence, whole = e.workload.causal ? sequence / 2 : sequence;
  const bool apart = m.attention.windowed.heads > 0;  // layers with windows are not of the mean
  const double windowed = apart ? 0 : static_cast<double>(m.attention.windowed_layers) / m.attention_layers();
  return whole * (1 - windowed) + seen_in_windows(e) * windowed;
}

LayerVolumes layer_volumes(const Experiment& e) {
  return layer_volumes(e, e.model.first_moe());
}

EndVolumes end_volumes(const Experiment& e) {
  EndVolumes ends;
  if (e.workload.extent != Extent::Model) return ends;
  ends.words = (e.model.vocabulary + e.parallelism.mp - 1) / e.parallelism.mp;
  ends.embedding_parameters = ends.words * e.model.hidden;
  ends.head_parameters = e.model.tied_embeddings ? 0 : ends.embedding_parameters;
  ends.norm_parameters = e.model.hidden;
  ends.embedding_twice = (e.model.tied_embeddings || e.workload.mtp_layers > 0) && e.parallelism.pp > 1;
  return ends;
}

EndVolumes end_volumes(const Experiment& e, const StageLayout& layout) {
  EndVolumes ends = end_volumes(e);
  ends.embedding_twice = ends.embedding_twice && !layout.has_begin(layout.ends_at());
  return ends;
}

std::vector<std::int64_t> dense_elements(const Experiment& e, const StageLayout& layout) {
  std::vector<std::int64_t> elements;
  for (int layer = 0; layer < e.workload.all_layers(); ++layer)
    elements.push_back(layer_volumes(e, layer).dense_parameters);
  const EndVolumes ends = end_volumes(e, layout);
  const auto last = layout.layers_of(layout.ends_at());
  elements[static_cast<std::size_t>(layout.layers_of(0).front())] += ends.embedding_parameters;
  elements[static_cast<std::size_t>(last.back())] += ends.head_parameters;
  if (ends.embedding_twice) elements[static_cast<std::size_t>(last.front())] += ends.embedding_parameters;
  return elements;
}

RowRange chunk_rows(std::int64_t capacity, int degree, int chunk) {
  return {capacity * chunk / degree, capacity * (chunk + 1) / degree};
}

TokenPart all_tokens(const LayerVolumes& v) {
  return {-1, {0, v.sequence}, {0, v.tokens}, {0, v.capacity}, v};
}

TokenPart token_part(const LayerVolumes& v, int degree, int chunk) {
  const std::int64_t samples = v.sequence_tokens / v.sequence, shares = v.sequence_tokens / v.tokens;
  const RowRange positions = chunk_rows(v.sequence, degree, chunk);
  TokenPart part{chunk,
                 positions,
                 {positions.first * samples / shares, positions.last * samples / shares},
                 chunk_rows(v.capacity, degree, chunk),
                 v};
  LayerVolumes& of_part = part.volumes;
  of_part.tokens = part.tokens.size();
  of_part.sequence_tokens = positions.size() * samples;
  of_part.capacity = part.slots.size();
  of_part.routing_entries = v.routing_entries / v.tokens * of_part.tokens;  // tokens choose
  const auto of_sequence = [&](std::int64_t position) {
    return static_cast<double>(position) / static_cast<double>(v.sequence);
  };
  const double first = of_sequence(positions.first), last = of_sequence(positions.last);
  const double share = v.skips_masked ? last * last - first * first : last - first;
  of_part.attention_score_flops = share * v.attention_score_flops;
  of_part.windowed.score_flops = share * v.windowed.score_flops;
  return part;
}

ChunkSpan chunks_sharing(RowRange rows, std::int64_t capacity, int degree) {
  ChunkSpan span;
  while (chunk_rows(capacity, degree, span.first).last <= rows.first) ++span.first;
  span.last = span.first + 1;
  while (span.last < degree && chunk_rows(capacity, degree, span.last).first < rows.last) ++span.last;
  return span;
}

}  // namespace dovetail
