// SPDX-License-Identifier: Apache-2.0
// The kernels of norms, embedding and loss on the host, on one thread, for float and double; layouts as in
// models/schedule/operands.md. Outputs are overwritten unless a comment says otherwise.
#pragma once
#include <cmath>
#include <span>

#include "exec/step/matrix.hpp"
#include "exec/step/norm_rule.hpp"
#include "exec/step/word_rule.hpp"

namespace dovetail::exec {

// One over the root of a row's mean square, from the sum of its squares.
template <class Scalar>
Scalar inverse_root_of(Scalar squares, std::int64_t count) {
  return 1 / std::sqrt(squares / static_cast<Scalar>(count) + Scalar(norm_epsilon));
}

template <class Scalar>
struct NormRow {
  const Scalar* weights;
  std::int64_t size;
};
template <class Scalar>
void norm_forward(const NormRow<Scalar>& norm, Matrix<const Scalar> x, Matrix<Scalar> y);
// Adds to d_weights.
template <class Scalar>
void norm_backward(const NormRow<Scalar>& norm, Matrix<const Scalar> x, Matrix<const Scalar> d_y, Matrix<Scalar> d_x,
                   Scalar* d_weights);

// The words of a micro-batch, and those that a rank has of the vocabulary.
template <class Scalar>
struct RankWords {
  const Scalar* tokens;                // (2, L): of each position, and the one after it
  std::span<const std::int64_t> rows;  // of each position
  std::int64_t sequence, depth;        // words are so many positions further on, see shifted_position()
  std::int64_t first, count, ranks;
  std::int64_t positions() const { return std::ssize(rows); }
  // The place among the rank's words of that of a position, or of the one after it; -1: another rank has it.
  std::int64_t word(std::int64_t position) const { return here(tokens[shifted(position)]); }
  std::int64_t next_word(std::int64_t position) const { return here(tokens[positions() + shifted(position)]); }

 private:
  std::int64_t shifted(std::int64_t position) const { return shifted_position(position, sequence, depth); }
  std::int64_t here(Scalar token) const {
    const std::int64_t word = static_cast<std::int64_t>(token) - first;
    return 0 <= word && word < count ? word : -1;
  }
};

// Rows of words of other ranks are 0.
template <class Scalar>
void embedding_forward(const RankWords<Scalar>& words, const Scalar* weights, Matrix<Scalar> to);
// Adds to d_weights.
template <class Scalar>
void embedding_backward(const RankWords<Scalar>& words, Matrix<const Scalar> d_rows, Scalar* d_weights);

// (L, 3), see loss_statistics.
template <class Scalar>
void loss_statistics_of(const RankWords<Scalar>& words, Matrix<const Scalar> logits, Scalar* statistics);
// From the statistics of all ranks (ranks, L, 3). Logits, if any, become the gradient of the mean over `tokens_of_step`
// losses.
template <class Scalar>
void loss_and_gradient(const RankWords<Scalar>& words, const Scalar* statistics, std::int64_t tokens_of_step,
                       Scalar* losses, Matrix<Scalar> logits);

}  // namespace dovetail::exec
