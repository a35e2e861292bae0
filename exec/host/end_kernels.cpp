// SPDX-License-Identifier: Apache-2.0
#include "exec/host/end_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "models/schedule/loss_statistics.hpp"

namespace dovetail::exec {
namespace {

template <class Scalar>
Scalar inverse_root(const Scalar* x, std::int64_t count) {
  Scalar squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  return inverse_root_of(squares, count);
}

}  // namespace

template <class Scalar>
void norm_forward(const NormRow<Scalar>& norm, Matrix<const Scalar> x, Matrix<Scalar> y) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const Scalar r = inverse_root(x.row(row), norm.size);
    for (std::int64_t i = 0; i < norm.size; ++i) y.row(row)[i] = norm.weights[i] * x.row(row)[i] * r;
  }
}

template <class Scalar>
void norm_backward(const NormRow<Scalar>& norm, Matrix<const Scalar> x, Matrix<const Scalar> d_y, Matrix<Scalar> d_x,
                   Scalar* d_weights) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const Scalar *const in = x.row(row), *const d = d_y.row(row), r = inverse_root(in, norm.size);
    Scalar dot = 0;
    for (std::int64_t i = 0; i < norm.size; ++i) dot += norm.weights[i] * d[i] * in[i];
    const Scalar back = r * r * dot / static_cast<Scalar>(norm.size);
    for (std::int64_t i = 0; i < norm.size; ++i) {
      d_weights[i] += d[i] * in[i] * r;
      d_x.row(row)[i] = r * (norm.weights[i] * d[i] - in[i] * back);
    }
  }
}

template <class Scalar>
void embedding_forward(const RankWords<Scalar>& words, const Scalar* weights, Matrix<Scalar> to) {
  for (std::int64_t position = 0; position < words.positions(); ++position) {
    Scalar* const row = to.row(words.rows[static_cast<std::size_t>(position)]);
    if (const std::int64_t word = words.word(position); word >= 0)
      std::copy_n(weights + word * to.cols, to.cols, row);
    else
      std::fill_n(row, to.cols, Scalar(0));
  }
}

template <class Scalar>
void embedding_backward(const RankWords<Scalar>& words, Matrix<const Scalar> d_rows, Scalar* d_weights) {
  for (std::int64_t position = 0; position < words.positions(); ++position)
    if (const std::int64_t word = words.word(position); word >= 0) {
      const Scalar* const row = d_rows.row(words.rows[static_cast<std::size_t>(position)]);
      for (std::int64_t i = 0; i < d_rows.cols; ++i) d_weights[word * d_rows.cols + i] += row[i];
    }
}

template <class Scalar>
void loss_statistics_of(const RankWords<Scalar>& words, Matrix<const Scalar> logits, Scalar* statistics) {
  for (std::int64_t position = 0; position < words.positions(); ++position) {
    const std::int64_t row = words.rows[static_cast<std::size_t>(position)], next = words.next_word(position);
    const Scalar* const z = logits.row(row);
    const Scalar largest = *std::max_element(z, z + logits.cols);
    Scalar sum = 0;
    for (std::int64_t i = 0; i < logits.cols; ++i) sum += std::exp(z[i] - largest);
    Scalar* const to = statistics + loss_statistics * row;
    to[0] = largest;
    to[1] = sum;
    to[2] = next >= 0 ? z[next] : Scalar(0);
  }
}

template <class Scalar>
void loss_and_gradient(const RankWords<Scalar>& words, const Scalar* statistics, std::int64_t tokens_of_step,
                       Scalar* losses, Matrix<Scalar> logits) {
  for (std::int64_t position = 0; position < words.positions(); ++position) {
    const std::int64_t row = words.rows[static_cast<std::size_t>(position)];
    const auto of_rank = [&](std::int64_t rank) {
      return statistics + loss_statistics * (rank * words.positions() + row);
    };
    Scalar largest = of_rank(0)[0], sum = 0, right = 0;
    for (std::int64_t rank = 1; rank < words.ranks; ++rank) largest = std::max(largest, of_rank(rank)[0]);
    for (std::int64_t rank = 0; rank < words.ranks; ++rank) {
      sum += of_rank(rank)[1] * std::exp(of_rank(rank)[0] - largest);
      right += of_rank(rank)[2];
    }
    losses[row] = largest + std::log(sum) - right;
    if (logits.data == nullptr) continue;
    Scalar* const z = logits.row(row);
    const Scalar share = 1 / static_cast<Scalar>(tokens_of_step);
    for (std::int64_t i = 0; i < logits.cols; ++i) z[i] = std::exp(z[i] - largest) / sum * share;
    if (const std::int64_t next = words.next_word(position); next >= 0) z[next] -= share;
  }
}

template void norm_forward<float>(const NormRow<float>&, Matrix<const float>, Matrix<float>);
template void norm_forward<double>(const NormRow<double>&, Matrix<const double>, Matrix<double>);
template void norm_backward<float>(const NormRow<float>&, Matrix<const float>, Matrix<const float>, Matrix<float>,
                                   float*);
template void norm_backward<double>(const NormRow<double>&, Matrix<const double>, Matrix<const double>, Matrix<double>,
                                    double*);
template void embedding_forward<float>(const RankWords<float>&, const float*, Matrix<float>);
template void embedding_forward<double>(const RankWords<double>&, const double*, Matrix<double>);
template void embedding_backward<float>(const RankWords<float>&, Matrix<const float>, float*);
template void embedding_backward<double>(const RankWords<double>&, Matrix<const double>, double*);
template void loss_statistics_of<float>(const RankWords<float>&, Matrix<const float>, float*);
template void loss_statistics_of<double>(const RankWords<double>&, Matrix<const double>, double*);
template void loss_and_gradient<float>(const RankWords<float>&, const float*, std::int64_t, float*, Matrix<float>);
template void loss_and_gradient<double>(const RankWords<double>&, const double*, std::int64_t, double*, Matrix<double>);

}  // namespace dovetail::exec
