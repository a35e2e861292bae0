// SPDX-License-Identifier: Apache-2.0
// Sizes of one layer on one rank, as the kernels see them; of an expert op, of its operands. Names as in
// models/schedule/operands.md.
#pragma once
#include <cstdint>

#include "exec/step/row_placement.hpp"
#include "models/question/experiment.hpp"
#include "models/question/volumes.hpp"

namespace dovetail::exec {

// Sizes of latent attention: of the low ranks that queries, and keys and values, are made from, and of the parts of a
// head's query or key without and with position. No kv_rank: other attention.
struct LatentSizes {
  std::int64_t q_rank = 0;  // 0: queries are made from the input
  std::int64_t kv_rank = 0;
  std::int64_t nope = 0, rope = 0;
};

struct LayerShape {
  std::int64_t samples = 0, sequence = 0;        // of the model-parallel group: L = samples x sequence tokens
  std::int64_t rank_tokens = 0;                  // T of this rank, whatever part of them the shape is of
  std::int64_t tokens = 0;                       // T, of this rank between the parts (of a chunk's ops: the chunk's)
  std::int64_t hidden = 0;                       // M
  std::int64_t heads = 0, kv_heads = 0;          // of this rank
  std::int64_t all_heads = 0, all_kv_heads = 0;  // of the model
  std::int64_t head_size = 0;                    // of queries and keys
  std::int64_t value_size = 0;                   // of values; 0: head_size
  LatentSizes latent;
  QkNorm qk_norm = QkNorm::None;
  bool rotary = false;  // queries and keys are turned by their positions (rotary_rule.hpp)
  std::int64_t experts = 0, local_experts = 0;
  std::int64_t row_copies = 0;     // blocks of rows that an expert works on
  std::int64_t shard = 0;          // S, of the expert's hidden size
  std::int64_t weight_shards = 1;  // side by side in the weights: an expert's hidden size is weight_shards S
  bool block_gemms = false;        // each block of rows is a GEMM of its own (rank_major)
  RowPlacement placement;
  std::int64_t top_k = 0;
  std::int64_t capacity = 0, first_slot = 0;  // slots [first_slot, first_slot + capacity)
  Gate gate = {};
  std::int64_t projection = 0;         // P, of a cosine gate
  std::int64_t router_parameters = 0;  // of all the gate's matrices
  bool gated = false;
  Extensions extensions = {};  // sub-modules of the user's own, with the sizes that they get
  GateSizes gate_sizes = {};
  ExpertSizes expert_sizes = {};
  std::int64_t custom_parameters = 0, custom_kept = 0;  // see LayerVolumes

  std::int64_t slots() const { return experts * capacity; }
  std::int64_t routing_entries() const {  // none of a soft gate
    return gate.token_choice() ? tokens * top_k : gate.kind == GateKind::ExpertChoice ? slots() : 0;
  }
  std::int64_t sequence_tokens() const { return samples * sequence; }  // L
  std::int64_t query_width() const { return heads * head_size; }       // Q
  std::int64_t key_width() const { return kv_heads * head_size; }      // K
  std::int64_t value_head() const { return value_size > 0 ? value_size : head_size; }
  std::int64_t value_width() const { return kv_heads * value_head(); }  // V
  std::int64_t context_width() const { return heads * value_head(); }   // C
  std::int64_t projected_width() const { return query_width() + key_width() + value_width(); }
  bool makes_low_ranks() const { return latent.kv_rank > 0; }
  std::int64_t low_rank_width() const { return latent.q_rank + latent.kv_rank + latent.rope; }  // R
  // Rows of the matrices that queries, and keys (their part without position) and values, are made by.
  std::int64_t query_inner() const { return latent.q_rank > 0 ? latent.q_rank : hidden; }
  std::int64_t key_inner() const { return makes_low_ranks() ? latent.kv_rank : hidden; }
  // Columns of the matrix that keys are made by: with latent attention without the positions' part.
  std::int64_t key_columns() const { return makes_low_ranks() ? kv_heads * latent.nope : key_width(); }
  // Elements of queries (keys: of keys) that one norm goes over, each with a weight of its own.
  std::int64_t query_norm() const { return qk_norm == QkNorm::Head ? head_size : query_width(); }
  std::int64_t key_norm() const { return qk_norm == QkNorm::Head ? head_size : key_width(); }
  // Queries and keys that have no norms of their own are turned once they are projected, others once they are normed.
  bool turns_projections() const { return rotary && qk_norm == QkNorm::None; }
  bool turns_normed() const { return rotary && qk_norm != QkNorm::None; }
  // The parameters of attention, with which dense_weights begins, and of its projections to low ranks, which are first.
  std::int64_t low_rank_parameters() const { return hidden * low_rank_width(); }
  std::int64_t dense_parameters() const {
    return low_rank_parameters() + query_inner() * query_width() + key_inner() * (key_columns() + value_width()) +
           context_width() * hidden;
  }
  std::int64_t expert_parameters() const { return (gated ? 3 : 2) * hidden * shard; }  // of one expert
  std::int64_t hidden_width() const { return (gated ? 2 : 1) * shard; }  // of one shard, kept for backward
  std::int64_t hidden_row() const { return weight_shards * hidden_width(); }
  // Blocks of each copy of the rows; which expert's weights those at a position need, -1: nobody's.
  std::int64_t positions() const { return placement.places.empty() ? local_experts : placement.positions; }
  std::int64_t expert_at(std::int64_t position) const {
    if (placement.places.empty()) return position;
    const auto at = static_cast<std::size_t>(position);
    return at < placement.dispatched.size() ? placement.dispatched[at] : -1;
  }
};

// The same layer with rows of one number each, such as their scores.
LayerShape with_numbers(LayerShape layer);

// As the dense feed-forward part has them: one expert whose rows are the L tokens. `parameters`: those of attention and
// of that part.
LayerShape ffn_shape(const LayerShape& layer, std::int64_t parameters);

// Throws InputError for what no executor runs yet: other attention than causal flash kernels over heads, and products
// in a format of their own.
void require_executable(const Experiment& experiment);
LayerShape layer_shape(const Experiment& experiment);
// With the placement of rows that the schedule's groups and shadowed experts give `rank`.
LayerShape layer_shape(const Experiment& experiment, const Schedule& schedule, int rank);
// The same with the tokens and slots of a part.
LayerShape part_shape(const LayerShape& whole, const TokenPart& part);

}  // namespace dovetail::exec
