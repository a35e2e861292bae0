// SPDX-License-Identifier: Apache-2.0
// The projections of latent attention: down to the low ranks, of a rank's own tokens, and up from the low ranks of all.
// In a head of queries or keys, the part without position comes first.
#include "exec/device/device_op.hpp"
#include "exec/device/latent_bodies.hpp"
#include "exec/device/rotary.hpp"
#include "exec/device/token_order.hpp"
#include "exec/host/host_kernels.hpp"

namespace dovetail::exec {
namespace {

// Parts of heads that stand `step` elements apart; the matrix begins with the first one's.
template <class Scalar>
struct PartsOfHeads {
  Matrix<Scalar> first;  // the columns of the first head's part
  std::int64_t step;     // 0: the same part for all heads
  HeadParts<Scalar> layout() const { return {first.data, first.stride, step}; }
};

template <class Scalar>
PartsOfHeads<Scalar> without_position(const LayerShape& s, Matrix<Scalar> heads) {
  return {heads.cols_from(0, s.latent.nope), s.head_size};
}
template <class Scalar>
PartsOfHeads<Scalar> with_position(const LayerShape& s, Matrix<Scalar> heads) {
  return {heads.cols_from(s.latent.nope, s.latent.rope), s.head_size};
}

template <class Scalar>
bool whole_packs(const PartsOfHeads<Scalar>& parts) {
  constexpr int size = pack_size<std::remove_const_t<Scalar>>;
  return parts.step % size == 0 && parts.first.cols % size == 0 && in_whole_packs(parts.first);
}

template <class Scalar>
void copy_heads(const DeviceOp<Scalar>& op, const PartsOfHeads<const Scalar>& from, const PartsOfHeads<Scalar>& to) {
  const Matrix<Scalar>& parts = to.first;
  launch_packed<Scalar>(
      op.out, parts.rows * parts.cols,
      [&]<int size>() {
        return CopyHeads<Scalar, size>{from.layout(), to.layout(), op.shape.heads, parts.cols};
      },
      whole_packs<const Scalar>(from) && whole_packs<Scalar>(to));
}

template <class Scalar>
void sum_heads(const DeviceOp<Scalar>& op, const PartsOfHeads<const Scalar>& from, const Matrix<Scalar>& sum) {
  launch_packed<Scalar>(
      op.out, sum.rows * sum.cols,
      [&]<int size>() {
        return SumHeads<Scalar, size>{from.layout(), sum.data, sum.stride, op.shape.heads, sum.cols};
      },
      whole_packs<const Scalar>(from) && in_whole_packs(sum));
}

template <class Scalar>
void turn_parts(const DeviceOp<Scalar>& op, Turn turn, const PartsOfHeads<const Scalar>& from,
                const PartsOfHeads<Scalar>& to, std::int64_t heads) {
  record_turn<Scalar>(op.out, op.shape.sequence, turn,
                      TurnedHeads<Scalar>{from.first, from.step, to.first, to.step, heads, op.shape.latent.rope});
}

template <class Scalar>
Matrix<Scalar> scratch_rows(const DeviceOp<Scalar>& op, std::int64_t cols) {
  const std::int64_t rows = op.shape.sequence_tokens();
  return {op.out.template scratch<Scalar>(rows * cols), rows, cols};
}

// The inputs of the projections up, by position.
template <class Scalar>
struct UpInputs {
  Matrix<const Scalar> query, key_value, position;
  explicit UpInputs(const DeviceOp<Scalar>& op) {
    const LayerShape& s = op.shape;
    const LowRankColumns<const Scalar> columns(s, ordered_rows(op, op.read(roles::low_ranks), s.low_rank_width()));
    query = s.latent.q_rank > 0 ? columns.query : ordered_rows(op, op.read(roles::attention_input), s.hidden);
    key_value = columns.key_value;
    position = columns.position;
  }
};

template <class Scalar>
void project_up(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const UpInputs<Scalar> from(op);
  const DenseWeights<const Scalar> w(s, op.read(TensorKind::DenseWeights));
  const ProjectionColumns<Scalar> to(s, op.write(TensorKind::QueryKeyValue));
  op.out.multiply(product<Scalar>(from.query, w.query, to.query));
  op.out.multiply(product<Scalar>(from.key_value, w.key.cols_from(0, s.latent.nope), without_position(s, to.key).first,
                                  Into::Overwrite, {s.heads, 0, s.latent.nope, s.head_size}));
  op.out.multiply(product<Scalar>(from.key_value, w.value, to.value));
  const PartsOfHeads<Scalar> query = with_position(s, to.query), key = with_position(s, to.key);
  const PartsOfHeads<const Scalar> position{from.position, 0};
  if (!s.rotary) return copy_heads<Scalar>(op, position, key);
  turn_parts<Scalar>(op, Turn::On, {query.first, query.step}, query, s.heads);
  turn_parts<Scalar>(op, Turn::On, position, key, s.heads);
}

// The gradients of what the projections gave, in scratch memory where that was turned or put together.
template <class Scalar>
struct UpGradients {
  Matrix<const Scalar> query, key, value;
};

// `d_position`: of the keys' part with positions.
template <class Scalar>
UpGradients<Scalar> gradients_of_products(const DeviceOp<Scalar>& op, const Matrix<Scalar>& d_position) {
  const LayerShape& s = op.shape;
  const ProjectionColumns<const Scalar> d(s, op.read(gradient_of(TensorKind::QueryKeyValue)));
  const Matrix<Scalar> key = scratch_rows(op, s.key_columns());
  copy_heads<Scalar>(op, without_position(s, d.key), {key.cols_from(0, s.latent.nope), s.latent.nope});
  if (!s.rotary) {
    sum_heads<Scalar>(op, with_position(s, d.key), d_position);
    return {d.query, key, d.value};
  }
  const Matrix<Scalar> query = scratch_rows(op, s.query_width()), sum = scratch_rows(op, s.latent.rope);
  copy_heads<Scalar>(op, without_position(s, d.query), without_position(s, query));
  turn_parts<Scalar>(op, Turn::Back, with_position(s, d.query), with_position(s, query), s.heads);
  sum_heads<Scalar>(op, with_position(s, d.key), sum);
  turn_parts<Scalar>(op, Turn::Back, {sum, 0}, {d_position, 0}, 1);
  return {query, key, d.value};
}

// Adds to the gradients of the weights.
template <class Scalar>
void up_weight_gradients(const DeviceOp<Scalar>& op, const UpGradients<Scalar>& d) {
  const LayerShape& s = op.shape;
  const UpInputs<Scalar> from(op);
  const DenseWeights<Scalar> g(s,
                               op.write(TensorKind::DenseGradients) + op.op.gradients.first - s.low_rank_parameters());
  op.out.multiply(product<Scalar>(transposed(from.query), d.query, g.query, Into::Add));
  op.out.multiply(product<Scalar>(transposed(from.key_value), d.key, g.key, Into::Add));
  op.out.multiply(product<Scalar>(transposed(from.key_value), d.value, g.value, Into::Add));
}

template <class Scalar>
void up_input_gradients(const DeviceOp<Scalar>& op, const UpGradients<Scalar>& d, const LowRankColumns<Scalar>& to) {
  const LayerShape& s = op.shape;
  const DenseWeights<const Scalar> w(s, op.read(TensorKind::DenseWeights));
  op.out.multiply(product<Scalar>(d.key, transposed(w.key), to.key_value));
  op.out.multiply(product<Scalar>(d.value, transposed(w.value), to.key_value, Into::Add));
  if (s.latent.q_rank > 0) {
    op.out.multiply(product<Scalar>(d.query, transposed(w.query), to.query));
    return;
  }
  const RowsToReturn<Scalar> d_input(op, op.write(gradient_of(TensorKind::AttentionInput)), s.hidden);
  op.out.multiply(product<Scalar>(d.query, transposed(w.query), d_input.rows()));
  d_input.give();
}

template <class Scalar>
void project_up_backward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  if (op.op.half == Half::Weights)
    return up_weight_gradients(op, gradients_of_products(op, scratch_rows(op, s.latent.rope)));
  const RowsToReturn<Scalar> d_low_ranks(op, op.write(gradient_of(roles::low_ranks)), s.low_rank_width());
  const LowRankColumns<Scalar> to(s, d_low_ranks.rows());
  const UpGradients<Scalar> d = gradients_of_products(op, to.position);
  if (op.op.half == Half::Both) up_weight_gradients(op, d);
  up_input_gradients(op, d, to);
  d_low_ranks.give();
}

template <class Scalar>
Matrix<const Scalar> own_input(const DeviceOp<Scalar>& op) {
  return {op.read(roles::own_attention_input), op.shape.rank_tokens, op.shape.hidden};
}

template <class Scalar>
void project_down(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const DenseWeights<const Scalar> w(s, op.read(TensorKind::DenseWeights));
  const Matrix<Scalar> to(op.write(TensorKind::LowRanks), s.rank_tokens, s.low_rank_width());
  if (s.latent.q_rank > 0)
    op.out.multiply(product<Scalar>(own_input(op), w.query_down, to.cols_from(0, s.latent.q_rank)));
  op.out.multiply(
      product<Scalar>(own_input(op), w.key_value_down, to.cols_from(s.latent.q_rank, w.key_value_down.cols)));
}

template <class Scalar>
void down_weight_gradients(const DeviceOp<Scalar>& op, Matrix<const Scalar> d_query, Matrix<const Scalar> d_key_value) {
  const DenseWeights<Scalar> g(op.shape, op.write(TensorKind::DenseGradients) + op.op.gradients.first);
  if (d_query.cols > 0) op.out.multiply(product<Scalar>(transposed(own_input(op)), d_query, g.query_down, Into::Add));
  op.out.multiply(product<Scalar>(transposed(own_input(op)), d_key_value, g.key_value_down, Into::Add));
}

// A gradient that came straight through queries, which have no low rank then, is there already.
template <class Scalar>
void down_input_gradients(const DeviceOp<Scalar>& op, Matrix<const Scalar> d_query, Matrix<const Scalar> d_key_value) {
  const DenseWeights<const Scalar> w(op.shape, op.read(TensorKind::DenseWeights));
  const Matrix<Scalar> d_input(op.write(roles::through_attention), op.shape.rank_tokens, op.shape.hidden);
  if (d_query.cols > 0) op.out.multiply(product<Scalar>(d_query, transposed(w.query_down), d_input));
  op.out.multiply(product<Scalar>(d_key_value, transposed(w.key_value_down), d_input, Into::Add));
}

template <class Scalar>
void project_down_backward(const DeviceOp<Scalar>& op) {
  const LayerShape& s = op.shape;
  const Matrix<const Scalar> d(op.read(gradient_of(TensorKind::LowRanks)), s.rank_tokens, s.low_rank_width());
  const Matrix<const Scalar> d_query = d.cols_from(0, s.latent.q_rank),
                             d_key_value = d.cols_from(s.latent.q_rank, s.latent.kv_rank + s.latent.rope);
  if (op.op.half != Half::Inputs) down_weight_gradients<Scalar>(op, d_query, d_key_value);
  if (op.op.half != Half::Weights) down_input_gradients<Scalar>(op, d_query, d_key_value);
}

}  // namespace

template <class Scalar>
void record_latent_projection(DeviceOp<Scalar>& op) {
  const bool forward = op.op.phase == Phase::Forward;
  const bool down =
      forward ? op.find_write(TensorKind::LowRanks).exists() : op.find_read(gradient_of(TensorKind::LowRanks)).exists();
  if (down) return forward ? project_down(op) : project_down_backward(op);
  forward ? project_up(op) : project_up_backward(op);
}

DOVETAIL_FOR_DEVICE(record_latent_projection);

}  // namespace dovetail::exec
