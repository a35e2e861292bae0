// Encode and decode: tokens to the capacity rows of their experts, and back weighted by their scores.
#include <algorithm>

#include "exec/host_kernels.hpp"
#include "models/errors.hpp"

namespace dovetail::exec {
namespace {

// A choice of a routing tensor (T, k, 3), at index token * k + choice.
template <class Scalar>
struct RoutedChoice {
  std::int64_t expert, slot;
  Scalar score;
  RoutedChoice(const Scalar* routing, std::int64_t index)
      : expert(static_cast<std::int64_t>(routing[3 * index])),
        slot(static_cast<std::int64_t>(routing[3 * index + 1])),
        score(routing[3 * index + 2]) {}
  bool dropped() const { return slot < 0; }
};

template <class Scalar>
Scalar* row_of(std::span<const Chunk<Scalar>> chunks, std::int64_t expert, std::int64_t slot, std::int64_t hidden) {
  for (const Chunk<Scalar>& chunk : chunks)
    if (chunk.rows.first <= slot && slot < chunk.rows.last)
      return chunk.data + (expert * chunk.rows.size() + slot - chunk.rows.first) * hidden;
  throw InternalError("no chunk holds a slot");
}

// visit(token, index of the choice, choice) for those that are not dropped.
template <class Scalar, class Visit>
void for_each_routed(const LayerShape& shape, const Scalar* routing, Visit visit) {
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t i = t * shape.top_k; i < (t + 1) * shape.top_k; ++i)
      if (const RoutedChoice<Scalar> choice(routing, i); !choice.dropped()) visit(t, i, choice);
}

template <class Scalar>
void clear(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks) {
  for (const Chunk<Scalar>& chunk : chunks)
    std::fill_n(chunk.data, shape.experts * chunk.rows.size() * shape.hidden, Scalar(0));
}

}  // namespace

template <class Scalar>
void encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<Scalar>> encoded) {
  clear(shape, encoded);
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    std::copy_n(moe_input.row(t), shape.hidden, row_of(encoded, choice.expert, choice.slot, shape.hidden));
  });
}

template <class Scalar>
void encode_backward(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                     Matrix<Scalar> d_moe_input) {
  std::fill_n(d_moe_input.data, d_moe_input.rows * d_moe_input.cols, Scalar(0));
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    const Scalar* const from = row_of(d_encoded, choice.expert, choice.slot, shape.hidden);
    Scalar* const to = d_moe_input.row(t);
    for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += from[m];
  });
}

template <class Scalar>
void decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output) {
  std::copy_n(moe_input.data, shape.tokens * shape.hidden, output.data);
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    const Scalar* const from = row_of(combined, choice.expert, choice.slot, shape.hidden);
    Scalar* const to = output.row(t);
    for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += choice.score * from[m];
  });
}

template <class Scalar>
void decode_backward(const LayerShape& shape, std::span<const Matrix<const Scalar>> gradients, const Scalar* routing,
                     std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output_gradient,
                     Scalar* score_gradient, std::span<const Chunk<Scalar>> d_combined) {
  const std::int64_t hidden = shape.hidden;
  std::copy_n(gradients.front().data, shape.tokens * hidden, output_gradient.data);
  for (const Matrix<const Scalar>& more : gradients.subspan(1))
    for (std::int64_t i = 0; i < shape.tokens * hidden; ++i) output_gradient.data[i] += more.data[i];
  clear(shape, d_combined);
  std::fill_n(score_gradient, shape.tokens * shape.top_k, Scalar(0));
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t i, const auto& choice) {
    const Scalar* const gradient = output_gradient.row(t);
    const Scalar* const row = row_of(combined, choice.expert, choice.slot, hidden);
    Scalar* const d_row = row_of(d_combined, choice.expert, choice.slot, hidden);
    double dot = 0;  // scores' gradients are differences of such sums
    for (std::int64_t m = 0; m < hidden; ++m) {
      dot += static_cast<double>(gradient[m]) * row[m];
      d_row[m] = choice.score * gradient[m];
    }
    score_gradient[i] = static_cast<Scalar>(dot);
  });
}

template void encode_forward<float>(const LayerShape&, Matrix<const float>, const float*,
                                    std::span<const Chunk<float>>);
template void encode_forward<double>(const LayerShape&, Matrix<const double>, const double*,
                                     std::span<const Chunk<double>>);
template void encode_backward<float>(const LayerShape&, const float*, std::span<const Chunk<const float>>,
                                     Matrix<float>);
template void encode_backward<double>(const LayerShape&, const double*, std::span<const Chunk<const double>>,
                                      Matrix<double>);
template void decode_forward<float>(const LayerShape&, Matrix<const float>, const float*,
                                    std::span<const Chunk<const float>>, Matrix<float>);
template void decode_forward<double>(const LayerShape&, Matrix<const double>, const double*,
                                     std::span<const Chunk<const double>>, Matrix<double>);
template void decode_backward<float>(const LayerShape&, std::span<const Matrix<const float>>, const float*,
                                     std::span<const Chunk<const float>>, Matrix<float>, float*,
                                     std::span<const Chunk<float>>);
template void decode_backward<double>(const LayerShape&, std::span<const Matrix<const double>>, const double*,
                                      std::span<const Chunk<const double>>, Matrix<double>, double*,
                                      std::span<const Chunk<double>>);

}  // namespace dovetail::exec
