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

// visit(row) for each copy of an expert's row that the chunks hold.
template <class Scalar, class Visit>
void for_each_copy(const LayerShape& shape, std::span<const Chunk<Scalar>> chunks, std::int64_t expert,
                   std::int64_t slot, Visit visit) {
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

// visit(token, index of the choice, choice) for those that are not dropped.
template <class Scalar, class Visit>
void for_each_routed(const LayerShape& shape, const Scalar* routing, Visit visit) {
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t i = t * shape.top_k; i < (t + 1) * shape.top_k; ++i)
      if (const RoutedChoice<Scalar> choice(routing, i); !choice.dropped()) visit(t, i, choice);
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

}  // namespace

template <class Scalar>
void encode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<Scalar>> encoded) {
  clear(shape, encoded);
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    for_each_copy(shape, encoded, choice.expert, choice.slot,
                  [&](Scalar* row) { std::copy_n(moe_input.row(t), shape.hidden, row); });
  });
}

template <class Scalar>
void encode_backward(const LayerShape& shape, const Scalar* routing, std::span<const Chunk<const Scalar>> d_encoded,
                     Matrix<Scalar> d_moe_input) {
  std::fill_n(d_moe_input.data, d_moe_input.rows * d_moe_input.cols, Scalar(0));
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    Scalar* const to = d_moe_input.row(t);
    for_each_copy(shape, d_encoded, choice.expert, choice.slot, [&](const Scalar* from) {
      for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += from[m];
    });
  });
}

template <class Scalar>
void decode_forward(const LayerShape& shape, Matrix<const Scalar> moe_input, const Scalar* routing,
                    std::span<const Chunk<const Scalar>> combined, Matrix<Scalar> output) {
  std::copy_n(moe_input.data, shape.tokens * shape.hidden, output.data);
  for_each_routed(shape, routing, [&](std::int64_t t, std::int64_t, const auto& choice) {
    Scalar* const to = output.row(t);
    for_each_copy(shape, combined, choice.expert, choice.slot, [&](const Scalar* from) {
      for (std::int64_t m = 0; m < shape.hidden; ++m) to[m] += choice.score * from[m];
    });
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
    double dot = 0;  // scores' gradients are differences of such sums
    for_each_copy(shape, combined, choice.expert, choice.slot, [&](const Scalar* row) {
      for (std::int64_t m = 0; m < hidden; ++m) dot += static_cast<double>(gradient[m]) * row[m];
    });
    for_each_copy(shape, d_combined, choice.expert, choice.slot, [&](Scalar* d_row) {
      for (std::int64_t m = 0; m < hidden; ++m) d_row[m] = choice.score * gradient[m];
    });
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
