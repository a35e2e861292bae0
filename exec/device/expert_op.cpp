// Expert feed-forward networks: products batched over experts or blocks of rows wherever those lie evenly, activations
// over all rows at once.
#include <algorithm>

#include "exec/device/device_op.hpp"
#include "exec/device/expert_bodies.hpp"
#include "exec/host/row_runs.hpp"

namespace dovetail::exec {
namespace {

// The weights of all experts of one shard.
template <class Scalar>
struct ShardWeights {
  Matrix<Scalar> w1, w2, w3;  // of expert 0; w3: gated only
  ShardWeights(const LayerShape& s, Scalar* all, std::int64_t shard) {
    Scalar* const first = all + shard * s.local_experts * s.expert_parameters();
    const std::int64_t size = s.hidden * s.shard;
    w1 = {first, s.hidden, s.shard};
    w2 = {first + size, s.shard, s.hidden};
    if (s.gated) w3 = {first + 2 * size, s.hidden, s.shard};
  }
};

// Rows of a buffer of rows with `cols` columns each, `width` of them from `col` on.
template <class Scalar>
struct RowBuffer {
  Scalar* data = nullptr;
  std::int64_t cols = 0, col = 0, width = 0;
  Matrix<Scalar> rows(std::int64_t first, std::int64_t count) const {
    return {data + first * cols + col, count, width, cols};
  }
};
template <class Scalar>
RowBuffer<Scalar> shard_columns(Scalar* data, const LayerShape& s, std::int64_t shard, std::int64_t width,
                                std::int64_t col = 0) {
  return {data, s.weight_shards * width, shard * width + col, s.shard};
}

// to = from weights for the rows of all experts (or its transpose's product); `a` places rows of `from`, `b` of `to`.
template <class Scalar>
void rows_by_weights(Recorder& out, const LayerShape& s, const std::vector<RunBatch>& runs,
                     RowBuffer<const Scalar> from, Matrix<const Scalar> weights, bool transposed_weights,
                     RowBuffer<Scalar> to, Into into) {
  for (const RunBatch& r : runs) {
    const Matrix<const Scalar> w(weights.data + r.first_expert * s.expert_parameters(), weights.rows, weights.cols);
    out.multiply(product<Scalar>(
        from.rows(r.first_a, r.rows), Factor<Scalar>(w, transposed_weights), to.rows(r.first_b, r.rows), into,
        {r.count, r.a_step * from.cols, r.expert_step * s.expert_parameters(), r.b_step * to.cols}));
  }
}

// gradient += left' right, expert by expert; `a` places rows of left, `b` of right.
template <class Scalar>
void weight_gradient(Recorder& out, const LayerShape& s, const std::vector<RunBatch>& runs,
                     RowBuffer<const Scalar> left, RowBuffer<const Scalar> right, Matrix<Scalar> gradient) {
  for (const RunBatch& r : runs) {
    const Matrix<Scalar> to(gradient.data + r.first_expert * s.expert_parameters(), gradient.rows, gradient.cols);
    out.multiply(
        product<Scalar>(transposed(left.rows(r.first_a, r.rows)), right.rows(r.first_b, r.rows), to, Into::Add,
                        {r.count, r.a_step * left.cols, r.b_step * right.cols, r.expert_step * s.expert_parameters()}));
  }
}

std::int64_t rows_of(const LayerShape& s, RowRange range) {
  return s.row_copies * s.positions() * range.size();
}

template <class Scalar>
RowBuffer<const Scalar> constant(RowBuffer<Scalar> b) {
  return {b.data, b.cols, b.col, b.width};
}

template <class Scalar>
void record_relu(Recorder& out, Scalar* values, std::int64_t count) {
  constexpr int size = pack_size<Scalar>;
  if (count % size == 0)
    out.launch(count / size, Relu<Scalar, size>{values});
  else
    out.launch(count, Relu<Scalar, 1>{values});
}

template <class Scalar>
void record_hidden(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* input, const Scalar* weights,
                   Scalar* hidden) {
  const std::vector<RunBatch> runs = run_batches(s, rows, rows);
  const RowBuffer<const Scalar> x{input, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard) {
    const ShardWeights<const Scalar> w(s, weights, shard);
    rows_by_weights(out, s, runs, x, w.w1, false, shard_columns(hidden, s, shard, s.hidden_width()), Into::Overwrite);
    if (s.gated)
      rows_by_weights(out, s, runs, x, w.w3, false, shard_columns(hidden, s, shard, s.hidden_width(), s.shard),
                      Into::Overwrite);
  }
  if (!s.gated) record_relu(out, hidden, rows_of(s, rows) * s.hidden_row());
}

// What enters W2: the hidden rows themselves, or scratch.
template <class Scalar>
const Scalar* record_activation(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* hidden) {
  if (!s.gated) return hidden;
  Scalar* const activation = out.scratch<Scalar>(rows_of(s, rows) * s.weight_shards * s.shard);
  out.launch(rows_of(s, rows), GatedActivation<Scalar>{hidden, activation, s.shard, s.weight_shards});
  return activation;
}

// Rows that belong to nobody's expert.
template <class Scalar>
void clear_unused(Recorder& out, const LayerShape& s, RowRange rows, Scalar* data) {
  for (std::int64_t copy = 0; copy < s.row_copies; ++copy)
    for (std::int64_t position = 0; position < s.positions(); ++position)
      if (s.expert_at(position) < 0)
        out.zero(data + (copy * s.positions() + position) * rows.size() * s.hidden, rows.size() * s.hidden);
}

template <class Scalar>
void record_forward(Recorder& out, const LayerShape& s, RowRange rows, const Scalar* input, const Scalar* weights,
                    Scalar* hidden, Scalar* partial) {
  clear_unused(out, s, rows, partial);
  record_hidden(out, s, rows, input, weights, hidden);
  const Scalar* const activation = record_activation<Scalar>(out, s, rows, hidden);
  const std::vector<RunBatch> runs = run_batches(s, rows, rows);
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard)
    rows_by_weights(out, s, runs, shard_columns(activation, s, shard, s.shard),
                    ShardWeights<const Scalar>(s, weights, shard).w2, false,
                    RowBuffer<Scalar>{partial, s.hidden, 0, s.hidden}, shard == 0 ? Into::Overwrite : Into::Add);
}

template <class Scalar>
struct ForwardChunk {
  RowRange rows;
  const Scalar *input, *hidden;
};
template <class Scalar>
struct BackwardChunk {
  RowRange rows;
  const Scalar* d_partial;
  const Scalar* weights;
  Scalar *gradient, *d_input, *d_hidden;
};

SharedRows shared_rows(RowRange a, RowRange b) {
  const std::int64_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
  return {last - first, first - a.first, a.size(), first - b.first, b.size()};
}

// Of the rows that a forward chunk shares with the backward one. d_activation, of all backward rows, is there.
template <class Scalar>
void record_backward(Recorder& out, const LayerShape& s, const ForwardChunk<Scalar>& kept,
                     const BackwardChunk<Scalar>& b, const Scalar* d_activation) {
  const SharedRows shared = shared_rows(kept.rows, b.rows);
  if (shared.shared <= 0) return;
  const std::vector<RunBatch> runs = run_batches(s, kept.rows, b.rows, BatchOf::Sums);
  const Scalar* const activation = record_activation<Scalar>(out, s, kept.rows, kept.hidden);
  out.launch(
      s.row_copies * s.positions() * shared.shared,
      ActivationBackward<Scalar>{shared, kept.hidden, d_activation, b.d_hidden, s.shard, s.weight_shards, s.gated});
  const RowBuffer<const Scalar> x{kept.input, s.hidden, 0, s.hidden}, d_y{b.d_partial, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard) {
    const ShardWeights<Scalar> gradient(s, b.gradient, shard);
    const std::int64_t width = s.hidden_width();
    weight_gradient(out, s, runs, shard_columns(activation, s, shard, s.shard), d_y, gradient.w2);
    weight_gradient(out, s, runs, x, constant(shard_columns(b.d_hidden, s, shard, width)), gradient.w1);
    if (s.gated)
      weight_gradient(out, s, runs, x, constant(shard_columns(b.d_hidden, s, shard, width, s.shard)), gradient.w3);
  }
}

template <class Scalar>
void record_backward(Recorder& out, const LayerShape& s, const std::vector<ForwardChunk<Scalar>>& kept,
                     const BackwardChunk<Scalar>& b) {
  const std::vector<RunBatch> runs = run_batches(s, b.rows, b.rows);
  const std::int64_t width = s.hidden_width();
  Scalar* const d_activation = out.scratch<Scalar>(rows_of(s, b.rows) * s.weight_shards * s.shard);
  const RowBuffer<const Scalar> d_y{b.d_partial, s.hidden, 0, s.hidden};
  const RowBuffer<Scalar> d_x{b.d_input, s.hidden, 0, s.hidden};
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard)
    rows_by_weights(out, s, runs, d_y, ShardWeights<const Scalar>(s, b.weights, shard).w2, true,
                    shard_columns(d_activation, s, shard, s.shard), Into::Overwrite);
  for (const ForwardChunk<Scalar>& forward : kept) record_backward<Scalar>(out, s, forward, b, d_activation);
  clear_unused(out, s, b.rows, b.d_input);
  for (std::int64_t shard = 0; shard < s.weight_shards; ++shard) {
    const ShardWeights<const Scalar> w(s, b.weights, shard);
    rows_by_weights(out, s, runs, constant(shard_columns(b.d_hidden, s, shard, width)), w.w1, true, d_x,
                    shard == 0 ? Into::Overwrite : Into::Add);
    if (s.gated)
      rows_by_weights(out, s, runs, constant(shard_columns(b.d_hidden, s, shard, width, s.shard)), w.w3, true, d_x,
                      Into::Add);
  }
}

}  // namespace

template <class Scalar>
void record_restore_hidden(DeviceOp<Scalar>& op) {
  record_hidden(op.out, expert_shape(op), op.op.rows, op.read(0), op.read(1), op.write(0));
}

// Reads 2 of the backward op: the gradient, if it has a value already. After it: the inputs of the forward chunks that
// share rows with this one, then their hidden rows.
template <class Scalar>
void record_expert(DeviceOp<Scalar>& op) {
  const LayerShape s = expert_shape(op);
  if (op.op.phase == Phase::Forward)
    return record_forward(op.out, s, op.op.rows, op.read(0), op.read(1), op.write(0), op.write(1));
  const bool has_value = op.reads()[2] == op.writes()[0];
  if (!has_value) op.out.zero(op.write(0), op.write_tensor(0).elements);
  const std::size_t first = has_value ? 3 : 2, chunks = (op.read_count() - first) / 2;
  std::vector<ForwardChunk<Scalar>> kept;
  for (std::size_t i = first; i < first + chunks; ++i)
    kept.push_back({op.read_tensor(i).rows, op.read(i), op.read(i + chunks)});
  record_backward<Scalar>(op.out, s, kept, {op.op.rows, op.read(0), op.read(1), op.write(0), op.write(1), op.write(2)});
}

template <class Scalar>
void record_dense_ffn(DeviceOp<Scalar>& op) {
  const bool forward = op.op.phase == Phase::Forward;
  const LayerShape s = ffn_shape(op.shape, op.read_tensor(forward ? 1 : 3).elements);
  const RowRange tokens{0, s.sequence_tokens()};
  if (forward)
    return record_forward(op.out, s, tokens, op.read(0), op.read(1) + s.dense_parameters(), op.write(0), op.write(1));
  Scalar* const d_hidden = op.out.template scratch<Scalar>(tokens.size() * s.hidden_width());
  record_backward<Scalar>(
      op.out, s, {{tokens, op.read(1), op.read(2)}},
      {tokens, op.read(0), op.read(3) + s.dense_parameters(), op.write(0) + op.op.rows.first, op.write(1), d_hidden});
}

DOVETAIL_FOR_DEVICE(record_expert);
DOVETAIL_FOR_DEVICE(record_restore_hidden);
DOVETAIL_FOR_DEVICE(record_dense_ffn);

}  // namespace dovetail::exec
