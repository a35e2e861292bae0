// SPDX-License-Identifier: Apache-2.0
// Work and traffic of one layer on one rank (FSMoE section 3.1, checked against its Table 2).
// Rows are counted exactly: capacity is a whole number of tokens, so the same numbers are
// simulated and really moved.
#pragma once
#include <cstdint>
#include <vector>

#include "models/question/experiment.hpp"
#include "models/question/stage_layout.hpp"

namespace dovetail {

struct RowRange {
  std::int64_t first = 0, last = 0;
  std::int64_t size() const { return last - first; }
  bool overlaps(RowRange o) const { return first < o.last && o.first < last; }
  friend bool operator==(RowRange, RowRange) = default;
};

// A chunk covers capacity rows of the experts of some peers. `peers` are offsets around the exchanging group, counted
// from each rank on: rank (own + o) mod size. Empty `peers` are all of them, in group order.
struct ChunkRange {
  RowRange rows, peers;
  ChunkRange(RowRange r, RowRange p = {}) : rows(r), peers(p) {}
  bool by_peers() const { return peers.size() > 0; }
  bool overlaps(const ChunkRange& o) const {
    return rows.overlaps(o.rows) && (by_peers() ? peers.overlaps(o.peers) : !o.by_peers());
  }
};

// Heads of this rank in layers with windows that have others than the rest.
struct HeadVolumes {
  double share = 0;  // of the model's layers that have them
  std::int64_t heads = 0, key_heads = 0, head_size = 0, value_size = 0;
  bool shared_values = false;
  Flops score_flops;  // as attention_score_flops
  std::int64_t query_width() const { return heads * head_size; }
  std::int64_t key_width() const { return key_heads * head_size; }
  std::int64_t value_width() const { return heads * value_size; }
  std::int64_t projected_width() const {
    return query_width() + key_heads * (head_size + (shared_values ? 0 : value_size));
  }
};

struct LayerVolumes {
  std::int64_t sequence = 0;         // tokens of a sample
  std::int64_t sequence_tokens = 0;  // B L: tokens of one model-parallel group
  std::int64_t tokens = 0;           // T = B L / mp: tokens of this rank between the parts
  std::int64_t capacity = 0;       // C = ceil(k f T / E): rows each rank sends to each expert at most; f <= 0: resolved
  std::int64_t local_experts = 0;  // dE = E / ep
  std::int64_t hidden_shard = 0;   // H / esp

  // How rows and weights meet; layer_volumes() gives those of experts that stay where they are.
  std::int64_t peers = 0;               // ranks that exchange rows: ep, times the shards that rows are repeated to
  std::int64_t repeats = 1;             // of each row
  std::int64_t esp = 0;                 // ranks whose rows are gathered
  std::int64_t weight_shards = 1;       // of an expert's hidden size, gathered to work with
  std::int64_t dispatched_experts = 0;  // of each peer: dE, or what shadowed experts leave of it at most
  std::int64_t shadowed_experts = 0;    // whose rows stay here

  bool moe = true;  // else a dense layer, which has no router and no experts
  // Layers of the model that have attention, and that have a recurrence, by all of them. Each layer of a step is their
  // mean: it has so much of the work, weights and activations of either. Layers of `windowed` heads are apart.
  double attention_share = 1, recurrence_share = 0, index_share = 0;
  HeadVolumes windowed;
  int mp = 1;                             // ranks that share these
  bool shared_values = false;             // keys are values too, but in windowed heads
  std::int64_t attention_parameters = 0;  // of this rank; Latent: with its low-rank projections, which ranks repeat
  std::int64_t ffn_parameters = 0;        // of this rank: g M ffn_hidden
  std::int64_t mtp_parameters = 0;        // of multi-token prediction: of the projection, 2 M M / mp
  std::int64_t dense_parameters = 0;      // the three: what the gradient all-reduce carries
  // On every rank: M E, or what the gate's matrices are, with the projections to and from what experts take.
  std::int64_t router_parameters = 0;
  std::int64_t latent_parameters = 0;  // these projections: 2 M row_width, or none
  // Elements of a token that these leave for the backward pass.
  std::int64_t latent_kept() const { return latent_parameters > 0 ? 2 * row_width : 0; }
  std::int64_t router_gemms = 0;       // of its forward pass
  std::int64_t projection = 0;         // P, of a cosine gate
  std::int64_t routing_entries = 0;    // T k, or E C where experts choose; 0: soft
  std::int64_t expert_parameters = 0;  // g M H E / (ep esp), or what experts of the user's own have
  // Parameters of one shard of an expert of the user's own, and numbers that it keeps of a row; 0: experts are the
  // model's.
  std::int64_t custom_parameters = 0, custom_kept = 0;
  // On every rank: 2 M of both norms, those of queries and keys, and 3 M of multi-token prediction; 0 where the
  // workload leaves norms out.
  std::int64_t norm_parameters = 0;
  std::int64_t mtp_norm_parameters = 0;  // the 3 M among these
  // Elements of a token's queries and keys on this rank that have norms of their own; Latent: of its low ranks.
  std::int64_t query_key_normed = 0;
  std::int64_t normed_tokens = 0;  // whose they are: L, or T of low ranks
  std::int64_t query_key_normed_elements() const { return normed_tokens * query_key_normed; }
  // The parameters that all ranks of a stage hold alike.
  std::int64_t replicated_parameters() const { return norm_parameters + router_parameters; }
  std::int64_t parameters() const { return dense_parameters + replicated_parameters() + expert_parameters; }
  // The parameters of one shard of one expert, and of one expert that this rank works with.
  std::int64_t shard_parameters() const {
    return custom_parameters > 0 ? custom_parameters : expert_gemms * row_width * hidden_shard;
  }
  std::int64_t worked_parameters() const { return weight_shards * shard_parameters(); }
  std::int64_t worked_hidden() const { return hidden_shard * weight_shards; }
  // Numbers of each row that an expert leaves for its backward pass.
  std::int64_t kept_hidden() const {
    return custom_parameters > 0 ? custom_kept : (expert_gemms - 1) * worked_hidden();
  }

  std::int64_t peers_of(const ChunkRange& c) const { return c.by_peers() ? c.peers.size() : peers; }
  // Ranks whose rows meet here in one expert.
  std::int64_t row_copies(const ChunkRange& c) const { return peers_of(c) * esp; }
  // All-to-all elements of a chunk per rank: of all C rows, without sharding knobs, C E M.
  std::int64_t all_to_all_elements(const ChunkRange& c) const {
    return c.rows.size() * peers_of(c) * dispatched_experts * row_width;
  }
  std::int64_t gathered_elements(const ChunkRange& c) const { return esp * all_to_all_elements(c); }
  std::int64_t shadow_elements() const { return capacity * row_width; }  // of one shadowed expert
  // Elements that encode writes: rows for other ranks, repeated, and those of shadowed experts.
  std::int64_t encoded_elements() const {
    return all_to_all_elements(RowRange{0, capacity}) + shadowed_experts * shadow_elements();
  }
  // Rows this rank's experts work on, over all its experts.
  std::int64_t expert_rows(const ChunkRange& c) const { return c.rows.size() * row_copies(c) * dispatched_experts; }
  // All GEMMs of an expert on `rows` rows in the forward pass; the backward pass takes twice as many.
  Flops expert_flops(std::int64_t rows) const;
  // Scores of all query heads of this rank for all keys, whatever the mask, and what flash attention keeps of them.
  std::int64_t score_elements() const { return of_attention(sequence_tokens * query_heads * sequence); }
  std::int64_t log_sums() const;
  // All heads of this rank in a layer without windows.
  HeadVolumes whole_heads() const;
  std::int64_t of_attention(std::int64_t elements) const;  // in the mean of the layers
  // Weights of tokens for slots in dense encoding: T E C.
  std::int64_t dense_weights() const { return tokens * experts * capacity; }

  // Forward: 2 B L^2 (Q + value_width), less where a kernel leaves out what the mask hides, in the mean of layers with,
  // without windows and without attention.
  Flops attention_score_flops;
  bool skips_masked = true;  // whether it does

  std::int64_t experts = 0, hidden = 0, expert_gemms = 0;
  std::int64_t row_width = 0;        // elements of a row between tokens and experts: hidden, or what experts take
  std::int64_t query_width = 0;      // Q: this rank's query heads x head size
  std::int64_t key_value_width = 0;  // K: this rank's key heads x head size
  std::int64_t value_width = 0;      // query heads x value head size: Q, but with Latent
  // The next three are in the mean of the layers. Elements of a token that go into the output's projection:
  // value_width, and those of recurrences.
  std::int64_t context_width = 0;
  // Elements that projections make: queries, keys and values together, Q + 2K but with Latent, and what else is kept.
  std::int64_t projected_width = 0;
  // R: of low ranks and of the keys' positions, which each model-parallel rank makes of its own tokens and all gather;
  // 0 unless Latent.
  std::int64_t low_rank_width = 0;
  std::int64_t low_rank_parameters() const { return hidden * low_rank_width; }  // the first of attention_parameters
  std::int64_t query_heads = 0;  // heads / mp; where mp does not divide, padded up as tensor parallelism needs
  std::int64_t ffn_hidden = 0;   // F: this rank's share of a dense layer's hidden size, or of all shared experts'
};

// The parts of a model before and after its layers, on a rank that has them; 0 where the workload leaves them out.
struct EndVolumes {
  std::int64_t words = 0;                 // V / mp, rounded up: this rank's share of the vocabulary
  std::int64_t embedding_parameters = 0;  // of this rank: words M
  std::int64_t head_parameters = 0;       // the same; 0 where its weights are the embedding's
  std::int64_t norm_parameters = 0;       // M of the final norm, on every rank
  bool embedding_twice = false;           // on the last of several stages too, for multi-token prediction or the head
  bool exist() const { return words > 0; }
  bool share_weights() const { return exist() && head_parameters == 0; }
};
EndVolumes end_volumes(
    const Experiment& experiment);  // where the last stage is no other than the first with pp 1 alone
EndVolumes end_volumes(const Experiment& experiment, const StageLayout& layout);

// Positions that a position sees on average, in the mean of the model's layers that have attention.
double seen_positions(const Experiment& experiment);
// Scores and values of a token in the forward pass, of positions that it sees, in the mean of the model's layers.
double score_flops_of_token(const Experiment& experiment, const LayerVolumes& volumes);

LayerVolumes layer_volumes(const Experiment& experiment, int layer);
LayerVolumes layer_volumes(const Experiment& experiment);  // of the first MoE layer

// Dense gradients of each trained layer on one rank, those of the embedding with the first layer of its pipeline stages
// and those of the output head with the last layer of the last one.
std::vector<std::int64_t> dense_elements(const Experiment& experiment, const StageLayout& layout);

// The rows that the capacity factor allows: ceil(k |f| T / E), or all T for f = 0.
std::int64_t capacity_limit(const Experiment& experiment);

// Rows [first, last) of the capacity that chunk `chunk` of `degree` covers: sizes differ by at most one.
RowRange chunk_rows(std::int64_t capacity, int degree, int chunk);

// The tokens that one pass through gate, encode and decode covers: all or, if attention is chunked too, a chunk of the
// positions of every sample, with its share of the tokens and of the capacity.
struct TokenPart {
  int chunk = -1;      // -1: all
  RowRange positions;  // of every sample
  RowRange tokens;     // of this rank's T, which are ordered by chunk
  RowRange slots;      // capacity rows that these tokens may take
  LayerVolumes
      volumes;  // of these tokens alone; attention as a chunk of queries that sees all earlier positions, or all
};
TokenPart all_tokens(const LayerVolumes& volumes);
TokenPart token_part(const LayerVolumes& volumes, int degree, int chunk);
// The chunks of `degree` that share rows with `rows`: [first, last).
struct ChunkSpan {
  int first = 0, last = 0;
  int size() const { return last - first; }
};
ChunkSpan chunks_sharing(RowRange rows, std::int64_t capacity, int degree);

}  // namespace dovetail
