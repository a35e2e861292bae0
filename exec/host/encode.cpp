// SPDX-License-Identifier: Apache-2.0
// Encode and decode: tokens to the capacity rows of their experts, and back weighted by their scores.
#include <algorithm>

#include "exec/host/custom_order.hpp"
#include "exec/host/row_copies.hpp"

namespace dovetail::exec {
namespace {

// 1 where the rows have been multiplied by their scores.
template <class Scalar>
Scalar weight_of(const RoutedChoice<Scalar>& choice, ScoresAt scores_at) {
  return scores_at == ScoresAt::Decode ? choice.score : Scalar(1);
}

}  // namespace

template <class Scalar>
void add_up(std::span<const Matrix<const Scalar>> gradients, Matrix<Scalar> sum) {
  const std::int64_t count = sum.rows * sum.cols;
  std::copy_n(gradients.front().data, count, sum.data);
  for (const Matrix<const Scalar>& more : gradients.subspan(1))
    for (std::int64_t i = 0; i < count; ++i) sum.data[i] += more.data[i];
}

template <class Scalar>
void encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<Scalar>> encoded) {
  if (shape.extensions.order != nullptr) return custom_encode(shape, moe_input, routing, encoded);
  clear(shape, encoded);
  for_each_routed(shape, routing, [&](std::int64_t, const auto& choice) {
    for_each_copy(shape, encoded, choice.place,
                  [&](Scalar* row) { std::copy_n(moe_input.row(choice.token), shape.hidden, row); });
  });
}

template <class Scalar>
void encode_scores(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<Scalar>> scores) {
  const LayerShape numbers = with_numbers(shape);
  clear(numbers, scores);
  for_each_routed(numbers, routing, [&](std::int64_t, const auto& choice) {
    for_each_copy(numbers, scores, choice.place, [&](Scalar* score) { *score = choice.score; });
  });
}

template <class Scalar>
void score_gradients(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_scores,
                     Scalar* score_gradient) {
  const LayerShape numbers = with_numbers(shape);
  std::fill_n(score_gradient, shape.routing_entries(), Scalar(0));
  for_each_routed(numbers, routing, [&](std::int64_t i, const auto& choice) {
    for_each_copy(numbers, d_scores, choice.place, [&](const Scalar* d_score) { score_gradient[i] += *d_score; });
  });
}

template <class Scalar>
void encode_backward(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                     Matrix<Scalar> d_moe_input) {
  if (shape.extensions.order != nullptr) return custom_encode_backward(shape, routing, d_encoded, d_moe_input);
  std::fill_n(d_moe_input.data, d_moe_input.rows * d_moe_input.cols, Scalar(0));
  for_each_routed(shape, routing, [&](std::int64_t, const auto& choice) {
    Scalar* const to = d_moe_input.row(choice.token);
    for_each_copy(shape, d_encoded, choice.place, [&](const Scalar* from) {
      for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += from[m];
    });
  });
}

template <class Scalar>
void decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing, ScoresAt scores_at,
                    std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output) {
  if (shape.extensions.order != nullptr) return custom_decode(shape, moe_input, routing, combined, output);
  std::copy_n(moe_input.data, shape.tokens * shape.hidden, output.data);
  for_each_routed(shape, routing, [&](std::int64_t, const auto& choice) {
    Scalar* const to = output.row(choice.token);
    const Scalar weight = weight_of(choice, scores_at);
    for_each_copy(shape, combined, choice.place, [&](const Scalar* from) {
      for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += weight * from[m];
    });
  });
}

template <class Scalar>
void decode_backward(const LayerShape& shape, Matrix<const Scalar> output_gradient, const Scalar* routing,
                     std::span<const Chunk<const Scalar>> combined, Scalar* score_gradient,
                     std::span<const Chunk<Scalar>> d_combined) {
  if (shape.extensions.order != nullptr)
    return custom_decode_backward(shape, output_gradient, routing, combined, score_gradient, d_combined);
  const std::int64_t hidden = shape.hidden;
  const ScoresAt scores_at = score_gradient != nullptr ? ScoresAt::Decode : ScoresAt::Experts;
  clear(shape, d_combined);
  if (scores_at == ScoresAt::Decode) std::fill_n(score_gradient, shape.routing_entries(), Scalar(0));
  for_each_routed(shape, routing, [&](std::int64_t i, const auto& choice) {
    const Scalar* const gradient = output_gradient.row(choice.token);
    const Scalar weight = weight_of(choice, scores_at);
    for_each_copy(shape, d_combined, choice.place, [&](Scalar* d_row) {
      for (std::int64_t m = 0; m < hidden; ++m) d_row[m] = weight * gradient[m];
    });
    if (scores_at != ScoresAt::Decode) return;
    double dot = 0;  // scores' gradients are differences of such sums
    for_each_copy(shape, combined, choice.place, [&](const Scalar* row) {
      for (std::int64_t m = 0; m < hidden; ++m) dot += static_cast<double>(gradient[m]) * row[m];
    });
    score_gradient[i] = static_cast<Scalar>(dot);
  });
}

template void add_up<float>(std::span<const Matrix<const float>>, Matrix<float>);
template void add_up<double>(std::span<const Matrix<const double>>, Matrix<double>);
template void encode_forward<float>(const LayerShape&, Matrix<const float>, const float*,
                                    std::span<const Chunk<float>>);
template void encode_forward<double>(const LayerShape&, Matrix<const double>, const double*,
                                     std::span<const Chunk<double>>);
template void encode_scores<float>(const LayerShape&, const float*, std::span<const Chunk<float>>);
template void encode_scores<double>(const LayerShape&, const double*, std::span<const Chunk<double>>);
template void score_gradients<float>(const LayerShape&, const float*, std::span<const Chunk<const float>>, float*);
template void score_gradients<double>(const LayerShape&, const double*, std::span<const Chunk<const double>>, double*);
template void encode_backward<float>(const LayerShape&, const float*, std::span<const Chunk<const float>>,
                                     Matrix<float>);
template void encode_backward<double>(const LayerShape&, const double*, std::span<const Chunk<const double>>,
                                      Matrix<double>);
template void decode_forward<float>(const LayerShape&, Matrix<const float>, const float*, ScoresAt,
                                    std::span<const Chunk<const float>>, Matrix<float>);
template void decode_forward<double>(const LayerShape&, Matrix<const double>, const double*, ScoresAt,
                                     std::span<const Chunk<const double>>, Matrix<double>);
template void decode_backward<float>(const LayerShape&, Matrix<const float>, const float*,
                                     std::span<const Chunk<const float>>, float*, std::span<const Chunk<float>>);
template void decode_backward<double>(const LayerShape&, Matrix<const double>, const double*,
                                      std::span<const Chunk<const double>>, double*, std::span<const Chunk<double>>);

}  // namespace dovetail::exec
