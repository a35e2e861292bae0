// Encode and decode: tokens to the capacity rows of their experts, and back weighted by their scores.
#include <algorithm>

#include "exec/host/host_kernels.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

// visit(row) for each copy of a place's row that the chunks hold.
template <class Scalar, class Visit>
void for_each_copy(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks, std::int64_t place, Visit visit) {
  const std::int64_t expert = place / shape.capacity, slot = place % shape.capacity + shape.first_slot;
  std::int64_t copies = 0;
  for (const Chunk<Scalar>& chunk : chunks) {
    if (!chunk.holds(slot)) continue;
    const auto in_block = [&](std::int64_t block) {
      ++copies;
      visit(chunk.data + (block * chunk.rows.size() + slot - chunk.rows.first) * shape.hidden);
    };
    if (chunk.expert < 0)
      shape.placement.for_each_block(expert, chunk.peers, in_block);
    else if (chunk.expert == expert)
      in_block(0);
  }
  if (copies == 0) throw InternalError("no chunk holds a slot");
}

// visit(entry, choice) for those that are not dropped.
template <class Scalar, class Visit>
void for_each_routed(const LayerShape& shape, const Scalar* routing, Visit visit) {
  for (std::int64_t i = 0; i < shape.routing_entries(); ++i)
    if (const RoutedChoice<Scalar> choice(routing, i); !choice.dropped()) visit(i, choice);
}

template <class Scalar>
void clear(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks) {
  const RowPlacement& placement = shape.placement;
  for (const Chunk<Scalar>& chunk : chunks) {
    const std::int64_t peers = chunk.peers.size() > 0 ? chunk.peers.size() : placement.peers;
    const std::int64_t blocks = placement.places.empty() ? shape.experts : peers * placement.positions;
    std::fill_n(chunk.data, (chunk.expert < 0 ? blocks : 1) * chunk.rows.size() * shape.hidden, Scalar(0));
  }
}

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
