// SPDX-License-Identifier: Apache-2.0
// Encode and decode as GShard's einsums: products of the tokens, or of the experts' rows, with weights (T, E, C) that
// are 0 nearly everywhere.
#include "exec/device/device_op.hpp"
#include "exec/device/soft_bodies.hpp"

namespace dovetail::exec {
namespace {

// The weights of one expert's slots in one chunk (T, rows), and those rows (rows, M); of the next expert, so many
// elements further on.
template <class Weight, class Scalar>
struct Block {
  Matrix<Weight> weights;
  Matrix<Scalar> rows;
  std::int64_t next_weights, next_rows;
};
template <class Weight, class Scalar>
Block<Weight, Scalar> block(const LayerShape& s, Weight* weights, const Tensor& chunk, Scalar* rows) {
  const std::int64_t count = chunk.rows.size();
  return {Matrix<Weight>(weights, s.tokens, s.slots()).cols_from(chunk.rows.first - s.first_slot, count),
          Matrix<Scalar>(rows, count, s.hidden), s.capacity, count * s.hidden};
}

// Rows of the chunks that an op writes: weights' x.
template <class Scalar>
void fill(const DeviceOp<Scalar>& op, const Scalar* weights, const Scalar* x, Role chunks) {
  const LayerShape& s = op.shape;
  for (TensorId chunk : op.all_writes(chunks)) {
    const auto b = block(s, weights, op.tensor(chunk), op.data(chunk));
    op.out.multiply(product<Scalar>(transposed(b.weights), Matrix<const Scalar>(x, s.tokens, s.hidden), b.rows,
                                    Into::Overwrite, {s.experts, b.next_weights, 0, b.next_rows}));
  }
}

// Adds weights rows, of the chunks that an op reads, to y. Experts one after the other, since all add to the same.
template <class Scalar>
void collect(const DeviceOp<Scalar>& op, const Scalar* weights, Role chunks, Scalar* y) {
  const LayerShape& s = op.shape;
  for (TensorId chunk : op.all_reads(chunks))
    for (std::int64_t expert = 0; expert < s.experts; ++expert) {
      const Tensor& t = op.tensor(chunk);
      const Scalar* const rows = op.data(chunk) + expert * t.rows.size() * s.hidden;
      const auto b = block(s, weights + expert * s.capacity, t, rows);
      op.out.multiply(product<Scalar>(b.weights, b.rows, Matrix<Scalar>(y, s.tokens, s.hidden), Into::Add));
    }
}

// Gradients of the weights: x rows'.
template <class Scalar, class Weight>
void weights_gradient(const DeviceOp<Scalar>& op, const Scalar* x, Role chunks, Weight* d_weights) {
  const LayerShape& s = op.shape;
  for (TensorId chunk : op.all_reads(chunks)) {
    const auto b = block<Weight, const Scalar>(s, d_weights, op.tensor(chunk), op.data(chunk));
    op.out.multiply(product<Scalar>(Matrix<const Scalar>(x, s.tokens, s.hidden), transposed(b.rows), b.weights,
                                    Into::Overwrite, {s.experts, 0, b.next_rows, b.next_weights}));
  }
}

// Products take factors of one format.
template <class Scalar>
const Scalar* narrowed(const DeviceOp<Scalar>& op, const Wide<Scalar>* combine) {
  if constexpr (std::is_same_v<Scalar, Wide<Scalar>>) {
    return combine;
  } else {
    const std::int64_t size = op.shape.tokens * op.shape.slots();
    Scalar* const result = op.out.template scratch<Scalar>(size);
    launch_packed<Scalar>(op.out, size, [&]<int pack>() { return Narrow<Scalar, pack>{combine, result}; });
    return result;
  }
}

}  // namespace

template <class Scalar>
void record_dense_encode(DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const Scalar* const mask = op.read(TensorKind::RoutingMask);
  if (op.op.phase == Phase::Forward)
    return fill<Scalar>(op, mask, read_tokens(op, roles::moe_input), TensorKind::Encoded | TensorKind::ShadowInput);
  const Role d_encoded = gradient_of(roles::expert_input);
  Scalar* const d_tokens = write_tokens(op, gradient_of(roles::moe_input));
  op.out.zero(d_tokens, s.tokens * s.hidden);
  collect<Scalar>(op, mask, d_encoded, d_tokens);
  if (op.find_read(roles::moe_input).exists())  // soft
    weights_gradient<Scalar>(op, read_tokens(op, roles::moe_input), d_encoded,
                             op.write(gradient_of(TensorKind::RoutingMask)));
}

template <class Scalar>
void record_dense_decode(DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  const Number* const weights = op.template read<Number>(TensorKind::CombineWeights);
  if (op.op.phase == Phase::Forward) {
    Scalar* const tokens = write_tokens(op, TensorKind::LayerInput);
    op.out.copy(tokens, read_tokens(op, TensorKind::MoeInput),
                s.tokens * s.hidden * static_cast<std::int64_t>(sizeof(Scalar)));
    return collect<Scalar>(op, narrowed(op, weights), roles::to_decode, tokens);
  }
  Scalar* const gradient = write_tokens(op, TensorKind::OutputGradient);
  record_gradient_sum(op, gradient);
  fill<Scalar>(op, narrowed(op, weights), gradient, gradient_of(TensorKind::Combined | TensorKind::ShadowOutput));
  weights_gradient<Scalar>(op, gradient, roles::to_decode,
                           op.template write<Number>(gradient_of(TensorKind::CombineWeights)));
}

DOVETAIL_FOR_DEVICE(record_dense_encode);
DOVETAIL_FOR_DEVICE(record_dense_decode);

}  // namespace dovetail::exec
