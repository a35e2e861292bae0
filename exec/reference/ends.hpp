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

// Cross-entropies of the words after each row (final norm, head, softmax). `gradient`: null, or where the gradients of
// the weights by the mean of all losses are added; then d_x gets that of x.
Values head_losses(const EndWeights& weights, const Values& x, std::span<const double> next_words, EndWeights* gradient,
                   Values* d_x);

// The word after that of each position; after the last one of a sample comes its first.
Values next_words(std::span<const double> words, std::size_t sequence);

}  // namespace dovetail::exec
