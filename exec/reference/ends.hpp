// SPDX-License-Identifier: Apache-2.0
// Norms, embedding, output head and loss of the reference: naive, row by row.
#pragma once
#include "exec/reference/model_data.hpp"

namespace dovetail::exec {

// y = w x / sqrt(mean(x x) + epsilon), for each row of w.size() numbers.
Values norm(std::span<const double> weights, const Values& x);
// Returns the gradient of x and adds that of the weights.
Values norm_backward(std::span<const double> weights, const Values& x, const Values& d_y, std::span<double> d_weights);

// The rows of the words' embeddings.
Values look_up(const EndWeights& weights, std::span<const double> words, std::size_t hidden);
void look_up_backward(std::span<const double> words, const Values& d_rows, std::size_t hidden, EndWeights& gradient);

// Cross-entropies of the words after each row (M) of the final norm's results (head, softmax). `gradient`: null, or
// where the gradients of the weights by the mean of all losses are added; then d_normed gets that of the rows.
Values head_losses(const EndWeights& weights, const Values& normed, std::span<const double> next_words,
                   EndWeights* gradient, Values* d_normed);

// The word so many positions after each one of a sample; after its last one comes its first.
Values words_after(std::span<const double> words, std::size_t sequence, std::size_t distance);

}  // namespace dovetail::exec
