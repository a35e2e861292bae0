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

// Rows of the chunks that an op writes, from its operand `first` on: weights' x.
template <class Scalar>
void fill(const DeviceOp<Scalar>& op, const Scalar* weights, const Scalar* x, std::size_t first) {
  const LayerShape& s = op.shape;
  for (std::size_t i = first; i < op.write_count(); ++i) {
    const auto b = block(s, weights, op.write_tensor(i), op.write(i));
    op.out.multiply(product<Scalar>(transposed(b.weights), Matrix<const Scalar>(x, s.tokens, s.hidden), b.rows,
                                    Into::Overwrite, {s.experts, b.next_weights, 0, b.next_rows}));
  }
}

// Adds weights rows, of the chunks that an op reads from its operand `first` on, to y. Experts one after the other,
// since all add to the same.
template <class Scalar>
void collect(const DeviceOp<Scalar>& op, const Scalar* weights, std::size_t first, Scalar* y) {
  const LayerShape& s = op.shape;
  for (std::size_t i = first; i < op.read_count(); ++i)
    for (std::int64_t expert = 0; expert < s.experts; ++expert) {
      const auto b = block(s, weights + expert * s.capacity, op.read_tensor(i),
                           op.read(i) + expert * op.read_tensor(i).rows.size() * s.hidden);
      op.out.multiply(product<Scalar>(b.weights, b.rows, Matrix<Scalar>(y, s.tokens, s.hidden), Into::Add));
    }
}

// Gradients of the weights: x rows'.
template <class Scalar, class Weight>
void weights_gradient(const DeviceOp<Scalar>& op, const Scalar* x, std::size_t first, Weight* d_weights) {
  const LayerShape& s = op.shape;
  for (std::size_t i = first; i < op.read_count(); ++i) {
    const auto b = block(s, d_weights, op.read_tensor(i), op.read(i));
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
  if (op.op.phase == Phase::Forward) return fill<Scalar>(op, op.read(1), read_tokens(op, 0), 0);
  const bool soft = op.read_tensor(1).kind == TensorKind::MoeInput;
  Scalar* const d_tokens = write_tokens(op, 0);
  op.out.zero(d_tokens, s.tokens * s.hidden);
  collect<Scalar>(op, op.read(0), soft ? 2 : 1, d_tokens);
  if (soft) weights_gradient<Scalar>(op, read_tokens(op, 1), 2, op.write(1));
}

template <class Scalar>
void record_dense_decode(DeviceOp<Scalar>& op) {
  using Number = Wide<Scalar>;
  const LayerShape& s = op.shape;
  Scalar* const tokens = write_tokens(op, 0);
  if (op.op.phase == Phase::Forward) {
    op.out.copy(tokens, read_tokens(op, 0), s.tokens * s.hidden * static_cast<std::int64_t>(sizeof(Scalar)));
    return collect<Scalar>(op, narrowed(op, op.template read<Number>(1)), 2, tokens);
  }
  const std::size_t at = record_gradient_sum(op, tokens);
  fill<Scalar>(op, narrowed(op, op.template read<Number>(at)), tokens, 2);
  weights_gradient<Scalar>(op, tokens, at + 1, op.template write<Number>(1));
}

DOVETAIL_FOR_DEVICE(record_dense_encode);
DOVETAIL_FOR_DEVICE(record_dense_decode);

}  // namespace dovetail::exec
