// SPDX-License-Identifier: Apache-2.0
// Sizes of the recurrence of a layer, on one of `mp` model-parallel ranks: weights, and what a token leaves for the
// backward pass. As the public code of each has them: flash-linear-attention (GatedDelta, KimiDelta), mamba (Mamba,
// Mamba2), MiniMax (Lightning), LFM2 (ShortConvolution).
#pragma once
#include <cstdint>
#include <vector>

#include "models/question/model.hpp"

namespace dovetail {

// A matrix (inner, columns) that all tokens multiply.
struct TokenProduct {
  std::int64_t columns = 0, inner = 0;
  friend bool operator==(const TokenProduct&, const TokenProduct&) = default;
};

struct RecurrenceSizes {
  std::int64_t heads = 0, key_heads = 0;  // of this rank
  std::int64_t width = 0;                 // elements of a token's values, which the output's projection reads
  std::int64_t keys = 0;                  // of its keys
  std::int64_t convolved = 0;             // channels that a convolution passes over
  std::int64_t normed = 0;                // elements that norms and gates pass over after the recurrence
  std::vector<TokenProduct> products;     // but the last, which is the output's
  TokenProduct output;
  std::int64_t vectors = 0;  // weights that are in no product: convolutions, decays, biases, norms

  std::int64_t parameters() const;
  std::int64_t kept() const;  // elements of a token: what products made, and what the convolution made of it
};

// The state of each head may not pass between ranks: with more ranks than heads these are repeated.
RecurrenceSizes recurrence_sizes(const Recurrence& recurrence, std::int64_t hidden, int mp);

// Flops of a token in the forward pass, in products with the states: each is added to and read. Delta rules also read
// what it held at the key.
double state_flops(const Recurrence& recurrence);

}  // namespace dovetail
