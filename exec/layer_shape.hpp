// Sizes of one layer on one rank, as the kernels see them; of an expert op, of its operands. Names as in
// models/operands.md.
#pragma once
#include <cstdint>

#include "exec/row_placement.hpp"
#include "models/experiment.hpp"

namespace dovetail::exec {

struct LayerShape {
  std::int64_t samples = 0, sequence = 0;  // of the model-parallel group: L = samples x sequence tokens
  std::int64_t tokens = 0;                 // T, of this rank between the parts
  std::int64_t hidden = 0;                 // M
  std::int64_t heads = 0, kv_heads = 0;    // of this rank
  std::int64_t head_size = 0;
  std::int64_t experts = 0, local_experts = 0;
  std::int64_t row_copies = 0;     // blocks of rows that an expert works on
  std::int64_t shard = 0;          // S, of the expert's hidden size
  std::int64_t weight_shards = 1;  // side by side in the weights: an expert's hidden size is weight_shards S
  bool block_gemms = false;        // each block of rows is a GEMM of its own (rank_major)
  RowPlacement placement;
  std::int64_t top_k = 0, capacity = 0;
  bool gated = false;

  std::int64_t sequence_tokens() const { return samples * sequence; }  // L
  std::int64_t query_width() const { return heads * head_size; }       // Q
  std::int64_t key_width() const { return kv_heads * head_size; }      // K
  std::int64_t dense_parameters() const { return hidden * 2 * (query_width() + key_width()); }
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

LayerShape layer_shape(const Experiment& experiment);
// With the placement of rows that the schedule's groups and shadowed experts give `rank`.
LayerShape layer_shape(const Experiment& experiment, const Schedule& schedule, int rank);

}  // namespace dovetail::exec
