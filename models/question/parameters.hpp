// SPDX-License-Identifier: Apache-2.0
// The parameters of a whole model, exactly as many as its published checkpoint has.
#pragma once
#include <cstdint>

#include "models/question/model.hpp"

namespace dovetail {

struct Parameters {
  std::int64_t embedding = 0;  // with learned positions
  std::int64_t head = 0;       // the output head; 0 where its weights are the embedding's
  std::int64_t norms = 0;      // before attention, before the feed-forward part, after the last layer
  std::int64_t attention = 0;  // with its own norms and biases
  std::int64_t recurrence = 0;
  std::int64_t dense_ffn = 0;
  std::int64_t router = 0;  // with the bias that corrects the choice
  std::int64_t routed_experts = 0;
  std::int64_t shared_experts = 0;  // with their gate
  std::int64_t mtp = 0;             // layers that predict further ahead; they share embedding and head

  // Without `mtp`, as models state their size.
  std::int64_t total() const {
    return embedding + head + norms + attention + recurrence + dense_ffn + router + routed_experts + shared_experts;
  }
};
Parameters parameters(const Model& model);
// The ones that a token meets: of the routed experts its top k.
Parameters active_parameters(const Model& model);

// Matrices of an attention with so many heads, with that of its output gate. Latent's projections down to its low ranks
// do not depend on the heads.
std::int64_t attention_matrices(const Attention& attention, std::int64_t hidden, std::int64_t query_heads,
                                std::int64_t key_value_heads);
// Elements of a token that Latent's projections down give: both low ranks and the keys' positions; 0 of others.
std::int64_t low_rank_width(const Attention& attention);
std::int64_t index_matrices(const Attention& attention, std::int64_t hidden);     // of a layer with an index
std::int64_t gate_columns(const Attention& attention, std::int64_t query_heads);  // of the output gate's matrix
// Elements of a token that the backward pass of an output gate reads, and of an index: the 4-byte numbers of the
// positions that it chose, in elements of 2 bytes.
std::int64_t kept_by_gate(const Attention& attention, std::int64_t query_heads);
std::int64_t kept_by_index(const Attention& attention);
// Weights of the norms of queries and keys, or of Latent's low ranks.
std::int64_t query_key_norms(const Attention& attention);
std::int64_t routed_expert_matrices(const Model& model);  // of one routed expert
// Matrices of a feed-forward part with so many hidden elements: a dense layer's or shared experts'.
std::int64_t ffn_matrices(const Model& model, std::int64_t ffn_hidden);

}  // namespace dovetail
